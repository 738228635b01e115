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
    from runner.analysis.budget import OverBudget
    from runner.analysis.comparison import Comparison, ComparisonRow
    from runner.analysis.effects import Effect
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

        text = summarize_run(self.record, self.folder, self.seconds, is_plain=True).strip("\n")
        if self.allocations and self.allocations.groups:
            text += f"\n\n{list_peak(self.allocations, MOST_LINES)}"
        return make_printable(text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from runner.render.html import notebook

        return notebook.draw_frame(self.record, str(self))


@dataclass(frozen=True, repr=False)
class Compared:
    """Records side by side: a row a metric of each pair, with its verdict."""

    pairs: tuple[Pair, ...]
    result: Comparison
    effects: tuple[Effect, ...] = ()
    """Within a sweep what each swept field does, over all cells."""
    over_budget: tuple[OverBudget, ...] = ()
    """Figures of candidates above what was allowed them."""
    sentence: str = ""

    @property
    def rows(self) -> Sequence[ComparisonRow]:
        return self.result.rows

    def __getitem__(self, metric: str) -> ComparisonRow:
        """Return the row of one metric: `compared["tensor_peak_bytes"].verdict`."""
        rows = [row for row in self.rows if row.metric == metric]
        if not rows:
            raise BadInput(
                f"{metric}: is not among the rows.", suggest(metric, {r.metric for r in self.rows})
            )
        if len(rows) > 1:
            raise BadInput(f"{metric}: stands in {len(rows)} rows.", "Read them from .rows.")
        return rows[0]

    def __str__(self) -> str:
        return make_printable(self._write(markdown=False))

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return make_printable(self._write(markdown=True))

    def _write(self, markdown: bool) -> str:
        from runner.render.comparison import list_comparison, list_effects

        lines = list_comparison(self.result, self.pairs, [], markdown)
        lines += list_effects(self.effects, markdown)
        lines += [f"over budget: {figure.reason}" for figure in self.over_budget]
        return "\n".join([*lines, "", self.sentence])


def open(path: str | os.PathLike[str]) -> Measurement:
    """Return the record in a run's folder, or that of a sweep's cell; or the latest run, as
    `open("latest")`. Of many at once, `load` makes a table."""
    from runner.engine import folders

    folder = folders.find_folder(str(path))
    runs = records.find(folder)
    if len(runs) > 1:
        raise BadInput(
            f"{path}: holds {len(runs)} runs.",
            f"Open one of them, as in {runs[0]}; or runner.load makes a table of them all.",
        )
    return Measurement(records.read(runs[0]), runs[0])


def compare(
    first: Measurement | str | os.PathLike[str],
    second: Measurement | str | os.PathLike[str] | None = None,
    metrics: Sequence[str] | None = None,
    *,
    by: str | None = None,
    baseline: str | None = None,
    budgets: Mapping[str, float | str] | None = None,
) -> Compared:
    """Return two records side by side, or the cells of two sweeps, the first as the baseline: how
    much more or less the second takes, with an interval, and whether that is better, worse, the
    same or unclear. Each is a measurement or a folder.

    Of one sweep alone the cells are compared between the values of the field `by` (the one that was
    swept first), `baseline` (the first one) against the others. `budgets` says how much a candidate
    may take: `{"tensor_peak_bytes": "120MB"}`.
    """
    from runner.analysis import budget, comparison, effects, selection
    from runner.render.conclusion import conclude, list_sentences

    for name in metrics or ():
        if name not in METRICS:
            raise BadInput(f"{name}: there is no such metric.", suggest(name, METRICS))
    allowed = [budget.read_budget(name, amount) for name, amount in (budgets or {}).items()]
    ours = _read_records(first)
    if second is None or by is not None:
        ours += [] if second is None else _read_records(second)
        selected = selection.pair_by_field(ours, by, baseline)
    else:
        groups = {"baseline": ours, "candidate": _read_records(second)}
        selected = selection.pair_by_path(groups, baseline)
    result = comparison.compare(selected.pairs, metrics)
    over = tuple(budget.list_over_budget(allowed, selected.pairs))
    if second is not None or by is not None:
        return Compared(selected.pairs, result, over_budget=over, sentence=conclude(result))
    grid = selection.CellGrid(ours)
    shown = tuple(effects.find_effects(grid, metrics))
    return Compared(selected.pairs, result, shown, over, " ".join(list_sentences(grid, shown)))


def _read_records(source: Measurement | str | os.PathLike[str]) -> list[Record]:
    """Return the records of a measurement, a run or a sweep."""
    if isinstance(source, Measurement):
        return [source.record]
    from runner.engine import folders

    readable, _ = records.read_each(records.find(folders.find_folder(str(source))))
    return [record for _, record in readable]
