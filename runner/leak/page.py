"""A leak hunt's page: what grows, what holds it, what was tried. Made from `leak.json` alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from runner import paths, schema
from runner.errors import BadInput
from runner.leak.hunt import RESULT_FILE
from runner.metrics import format_bytes
from runner.render.html import REPORT_FILE
from runner.render.html.elements import Node, draw_sections, tag, write_document
from runner.render.html.tables import draw_table
from runner.render.tables import Column, TableCell, make_count_cell, make_table


class _KeptHolder(msgspec.Struct):
    kind: str
    bytes_per_step: schema.Number
    what: str
    count_per_step: schema.Number | None = None
    file: str | None = None
    line: schema.Whole | None = None
    code: str | None = None
    chain: list[str] = []


class _KeptRemedy(msgspec.Struct):
    change: str
    command: str | None = None
    growth_bytes_per_step: schema.Number | None = None
    verdict: str | None = None


class _KeptLeak(msgspec.Struct):
    cell: str
    verdict: str
    sentence: str
    holders: list[_KeptHolder] = []
    remedies: list[_KeptRemedy] = []


class _KeptHunt(msgspec.Struct):
    leaks: list[_KeptLeak]


def is_leak_hunt(folder: Path) -> bool:
    return (folder / RESULT_FILE).is_file()


def write_leak_page(folder: Path) -> Path:
    """Write `report.html` of the leak hunt in `folder`; return where it is. Raise `BadInput` where
    its answers can't be read."""
    file = folder / RESULT_FILE
    try:
        hunt = schema.decode(_KeptHunt, paths.read_text(file))
    except schema.Unreadable as error:
        raise BadInput(f"{file}: is not what leak writes ({error}).", "Repeat the hunt.") from None
    title = "What grows from step to step"
    page = write_document(
        title,
        tag("h1", title),
        draw_sections((leak.cell, _draw_leak(leak)) for leak in hunt.leaks),
        tag("footer", f"Leak hunt in {folder.resolve()}; each run in it has a report of its own."),
    )
    return paths.write_text(folder / REPORT_FILE, page)


def _draw_leak(leak: _KeptLeak) -> Iterator[Node]:
    yield tag("p.sentence", f"{leak.cell} {leak.sentence}.")
    if leak.holders:
        columns: list[Column[_KeptHolder]] = [
            Column("a step", lambda holder: _make_bytes(holder.bytes_per_step), is_figure=True),
            Column("kind", lambda holder: holder.kind),
            Column("times", lambda holder: make_count_cell(holder.count_per_step), is_figure=True),
            Column("line", lambda holder: f"{holder.file}:{holder.line}" if holder.file else ""),
            Column("code", lambda holder: tag("code", holder.code) if holder.code else None),
            Column("what", lambda holder: holder.what, wraps=True),
            Column("held by", lambda holder: " > ".join(holder.chain), wraps=True),
        ]
        yield tag("h3", "What stays, and what holds it")
        yield draw_table(make_table(columns, leak.holders), "holders", is_sortable=True)
    tried = [remedy for remedy in leak.remedies if remedy.command]
    if tried:
        tried_columns: list[Column[_KeptRemedy]] = [
            Column("tried", lambda remedy: remedy.change),
            Column("grows by", lambda remedy: _make_bytes(remedy.growth_bytes_per_step),
                   is_figure=True),
            Column("verdict", lambda remedy: remedy.verdict or "", wraps=True),
            Column("command", lambda remedy: tag("code", remedy.command), wraps=True),
        ]  # fmt: skip
        yield tag("h3", "What was tried")
        yield draw_table(make_table(tried_columns, tried), "remedies")
    written = [remedy for remedy in leak.remedies if not remedy.command]
    if written:
        yield tag("h3", "What to write")
        yield tag("ul", (tag("li", remedy.change) for remedy in written))


def _make_bytes(size: float | None) -> TableCell:
    if size is None:
        return TableCell("unknown")
    return TableCell(format_bytes(size), f"{size:,.15g} bytes", size)
