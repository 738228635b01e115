"""Records as objects of the user's program: `Measurement`, and two of them side by side.

Light: what draws, judges or prints is loaded as it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner import records
from runner.allocations import Allocations
from runner.errors import BadInput, suggest
from runner.metrics import METRICS
from runner.records import Outcome, Record
from runner.sanitize import make_printable

if TYPE_CHECKING:
    from runner.analysis.comparison import Comparison, ComparisonRow
    from runner.analysis.selection import Pair

MOST_LINES = 8
"""Lines of the peak in the text of a record."""


@dataclass(frozen=True, repr=False)
class Measurement:
    """One record, and where it is kept. It shows itself as text, and as a page in a notebook."""

    record: Record
    folder: Path
    seconds: float | None = field(default=None, compare=False)
    """The time that it took; not known of one that was opened."""

    @property
    def outcome(self) -> Outcome:
        """Return `completed`, or how and why it ended otherwise."""
        return self.record.outcome

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Return the figures by the names of `runner.metrics.METRICS`; None where one could not be
        had, and then `record.unavailable` says why."""
        return self.record.metrics

    @property
    def allocations(self) -> Allocations | None:
        """Return what was live at the peak, by line and by op; None without a memory trial."""
        return self.record.allocations

    def __getitem__(self, metric: str) -> float | None:
        """Return one figure; raise `BadInput` for a name that is no metric."""
        if metric not in METRICS:
            raise BadInput(f"{metric}: there is no such metric.", suggest(metric, METRICS))
        return self.record.metrics.get(metric)

    def report(self) -> Path:
        """Write `report.html`, one file that opens from a mail, beside the record; return where."""
        from runner.render import html

        return html.write_page(self.folder)

    def __str__(self) -> str:
        from runner.render.text.peak_listing import list_peak
        from runner.render.text.run_summary import summarize_run

        text = summarize_run(self.folder, self.seconds, is_plain=True).strip("\n")
        if self.allocations and self.allocations.groups:
            text += f"\n\n{list_peak(self.allocations, MOST_LINES)}"
        return make_printable(text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from runner.render.html import notebook

        return notebook.draw_frame(self.record, str(self))


@dataclass(frozen=True, repr=False)
class Compared:
    """Two records side by side: a row a metric, each with its verdict."""

    pair: Pair
    result: Comparison

    @property
    def rows(self) -> Sequence[ComparisonRow]:
        return self.result.rows

    def __getitem__(self, metric: str) -> ComparisonRow:
        """Return the row of one metric: `compared["tensor_peak_bytes"].verdict`."""
        found = {row.metric: row for row in self.rows}
        if metric not in found:
            raise BadInput(f"{metric}: is not among the rows.", suggest(metric, found))
        return found[metric]

    def __str__(self) -> str:
        return make_printable(self._write(markdown=False))

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return make_printable(self._write(markdown=True))

    def _write(self, markdown: bool) -> str:
        from runner.render.comparison import list_comparison
        from runner.render.conclusion import conclude

        rows = list_comparison(self.result, [self.pair], [], markdown)
        return "\n".join([*rows, "", conclude(self.result)])


def open(path: str | os.PathLike[str]) -> Measurement:
    """Return the record in a run's folder, or that of a sweep's cell; or the latest run, as
    `open("latest")`. Of many at once, `load` makes a table."""
    from runner.engine import folders

    folder = folders.find_folder(str(path))
    found = records.find(folder)
    if len(found) > 1:
        raise BadInput(
            f"{path}: holds {len(found)} runs.",
            f"Open one of them, as in {found[0]}; or runner.load makes a table of them all.",
        )
    return Measurement(records.read(found[0]), found[0])


def compare(
    baseline: Measurement | str | os.PathLike[str],
    candidate: Measurement | str | os.PathLike[str],
    metrics: Sequence[str] | None = None,
) -> Compared:
    """Return two records side by side, each a measurement or the folder of one: how much more or
    less the candidate takes, with an interval, and whether that is better, worse, the same or
    unclear."""
    from runner.analysis import comparison, selection

    before, now = (
        each if isinstance(each, Measurement) else open(each) for each in (baseline, candidate)
    )
    for name in metrics or ():
        if name not in METRICS:
            raise BadInput(f"{name}: there is no such metric.", suggest(name, METRICS))
    selected = selection.pair_by_path({"baseline": [before.record], "candidate": [now.record]})
    (pair,) = selected.pairs
    return Compared(pair, comparison.compare([pair], metrics))
