"""A record in Markdown: the note on top of its page in MLflow."""

from __future__ import annotations

import textwrap
from pathlib import Path

from runner.allocations import Allocations
from runner.metrics import METRICS, Rank, format_bytes, list_shown
from runner.records import Record
from runner.render import peak
from runner.render.files.command import write_command
from runner.render.files.markdown import write_table
from runner.render.peak import Slice
from runner.render.tables import Column, make_count_cell, make_share_cell, make_table
from runner.render.words import count_trials, describe_interval, format_figure
from runner.sanitize import escape_markdown, format_code_block, format_code_span

_MOST_SLICES = 5


def write_note(record: Record, folder: Path) -> str:
    """Return a record in Markdown.

    MLflow shows five lines of it until it is unfolded, so the first two paragraphs say what
    matters: what came out, and how to do it again.
    """
    # A long line would push the rest of the page out of the window.
    command = textwrap.fill(
        write_command(record), 96, subsequent_indent="  ",
        break_long_words=False, break_on_hyphens=False,
    ).replace("\n", " \\\n")  # fmt: skip
    parts = [_write_outcome(record), format_code_block(command)]
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


def _write_outcome(record: Record) -> str:
    outcome = record.outcome
    status = outcome.status.value.replace("_", " ").capitalize()
    if outcome.completed:
        figures = []
        for name in list_shown(Rank.RUN):
            if name in record.metrics:
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


def _write_peak(allocations: Allocations) -> str:
    """Return the lines of code that made the peak or, of an older record, its groups."""
    slices, what = peak.slice_by_line(allocations), "line"
    if not slices:
        slices, what = peak.slice_by_op(allocations), "op"
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
