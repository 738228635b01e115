"""A record in Markdown: the note on top of its page in MLflow."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from runner.allocations import Allocations
from runner.config import format_word
from runner.metrics import METRICS, TENSOR_PEAK, Rank, format_bytes, list_shown
from runner.records import Record
from runner.render import peak
from runner.render.conclusion import describe_sweep
from runner.render.files.command import write_command
from runner.render.files.markdown import write_table
from runner.render.peak import Slice
from runner.render.tables import (
    Column,
    make_count_cell,
    make_metric_column,
    make_share_cell,
    make_table,
)
from runner.render.words import (
    count_things,
    count_trials,
    describe_interval,
    format_figure,
    format_share,
)
from runner.sanitize import escape_markdown, format_code_block, format_code_span

_MOST_SLICES = 5
_MOST_NAMED = 3
"""Slices of the peak that its sentence names."""
_MOST_CELLS = 40
"""Rows of a sweep's table: MLflow takes 8,000 letters."""


def write_note(record: Record, folder: Path) -> str:
    """Return a record in Markdown.

    MLflow shows five lines of it until it is unfolded, so the first two paragraphs say what
    matters: what came out, and what the peak is made of.
    """
    # A long line would push the rest of the page out of the window.
    command = textwrap.fill(
        write_command(record), 96, subsequent_indent="  ",
        break_long_words=False, break_on_hyphens=False,
    ).replace("\n", " \\\n")  # fmt: skip
    peak_sentence = _describe_peak(record.allocations) if record.allocations else ""
    parts = [_write_outcome(record), *filter(None, [peak_sentence]), format_code_block(command)]
    columns: list[Column[str]] = [
        Column("what", lambda name: METRICS[name].label),
        Column("value", lambda name: format_figure(record, name), is_figure=True),
        Column("95 % interval", lambda name: describe_interval(record, name)),
        Column("meaning", lambda name: METRICS[name].meaning),
    ]
    if names := [name for name in METRICS if name in record.metrics]:
        parts.append("\n".join(write_table(make_table(columns, names))))
    missing = [
        f"- {format_code_span(name)}: {escape_markdown(why)}"
        for name, why in record.unavailable.items()
    ]
    if missing:
        parts.append("\n".join(["Not measured:", "", *missing]))
    if record.allocations and record.allocations.groups:
        parts.append(_write_peak(record.allocations))
    where = format_code_span(str(folder.resolve()))
    parts.append(f"{count_trials(record.trials).capitalize()}. Everything: {where}")
    return "\n\n".join(parts)


def write_sweep_note(cells: Sequence[Record]) -> str:
    """Return a sweep in Markdown: what it shows, how its cells ended, and their figures, smallest
    peak first."""
    statuses = Counter(cell.outcome.status.replace("_", " ") for cell in cells)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    swept = [tuple(cell.sweep.swept) for cell in cells if cell.sweep]
    fields = dict.fromkeys(field for names in swept for field in names)
    # Cells of several questions, as of claims, have no one answer.
    effect = escape_markdown(describe_sweep(cells)) if len(set(swept)) == 1 else ""
    columns: list[Column[Record]] = [
        *(_make_field_column(field) for field in fields),
        *(make_metric_column(name) for name in list_shown(Rank.TABLE)),
        Column("", lambda cell: "" if cell.outcome.completed else cell.outcome.brief),
    ]
    peaks = {cell.id: cell.metrics.get(TENSOR_PEAK) for cell in cells}
    ordered = sorted(cells, key=lambda cell: (peaks[cell.id] is None, peaks[cell.id] or 0))
    parts = [
        " ".join(filter(None, [f"**{count_things(len(cells), 'cell')}**: {counts}.", effect])),
        "\n".join(write_table(make_table(columns, ordered[:_MOST_CELLS]))),
    ]
    if len(cells) > _MOST_CELLS:
        parts.append(f"{len(cells) - _MOST_CELLS} more cells are in `table.csv`.")
    return "\n\n".join(parts)


def _make_field_column(field: str) -> Column[Record]:
    def read(cell: Record) -> str:
        said = cell.sweep.swept.get(field) if cell.sweep else ""
        return format_word(cell.spec.fields.get(field, said or ""))

    return Column(field, read)


def _write_outcome(record: Record) -> str:
    outcome = record.outcome
    status = outcome.status.value.replace("_", " ").capitalize()
    if outcome.completed:
        figures = []
        for name in list_shown(Rank.TABLE):
            if record.metrics.get(name) is not None:
                interval = describe_interval(record, name)
                figure = f"{METRICS[name].label} **{format_figure(record, name)}**"
                figures.append(f"{figure} ({interval})" if interval else figure)
        return f"**{status}**: {', '.join(figures)}." if figures else f"**{status}**."
    where = f" in {format_code_span(outcome.phase)}" if outcome.phase else ""
    if not outcome.reason:
        return f"**{status}**{where}."
    # Cut to a length that leaves room for the rest.
    lines = outcome.reason[:2000].splitlines()
    reason = "\n".join(textwrap.fill(line, 96, replace_whitespace=False) for line in lines)
    return f"**{status}**{where}:\n\n{format_code_block(reason, '~', 'text')}"


def _describe_peak(allocations: Allocations) -> str:
    """Return the largest parts of the peak: `Made by `model.py:7` 97 %, ...`."""
    named = [
        f"{format_code_span(part.name)} {format_share(part.bytes / allocations.total_bytes)}"
        for part in _slice(allocations)[0][:_MOST_NAMED]
        if part.bytes
    ]
    return f"Peak made by {', '.join(named)}." if named else ""


def _slice(allocations: Allocations) -> tuple[list[Slice], str]:
    """Return the slices by line of code or, of an older record, by op; and which of the two."""
    slices = peak.slice_by_line(allocations)
    return (slices, "line") if slices else (peak.slice_by_op(allocations), "op")


def _write_peak(allocations: Allocations) -> str:
    slices, what = _slice(allocations)
    total = allocations.total_bytes or 1
    columns: list[Column[Slice]] = [
        Column(what, lambda row: row.name),
        Column("tensor", lambda row: f"{row.shape} {row.dtype}".strip()),
        Column("code", lambda row: row.code or row.why),
        Column("count", lambda row: make_count_cell(row.count), is_figure=True),
        Column("bytes", lambda row: format_bytes(row.bytes), is_figure=True),
        Column("share", lambda row: make_share_cell(row.bytes / total), is_figure=True),
    ]
    rows = peak.fold_slices(slices, _MOST_SLICES, what)
    head = f"Live at the peak, {format_bytes(allocations.total_bytes)}, by {what}:"
    return "\n".join([head, "", *write_table(make_table(columns, rows))])
