"""A sweep's page: the sentence that decides, then memory, time, the table, and what went wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from xml.etree.ElementTree import Element

from runner.analysis import objective, selection
from runner.analysis.effects import Effect, find_effects
from runner.analysis.selection import CellGrid
from runner.metrics import METRICS, TENSOR_PEAK, Rank, format_bytes, list_shown
from runner.records import Record, Status, UnreadableRecord
from runner.render import peak
from runner.render.comparison import make_comparison_table
from runner.render.conclusion import (
    choose_headlines,
    describe_effect,
    describe_size,
    list_sentences,
    name_without_field,
)
from runner.render.html import charts, peak_sections, provenance
from runner.render.html.elements import Node, draw_sections, tag, write_document
from runner.render.html.lives import draw_highest_lives
from runner.render.html.scales import LogScale
from runner.render.html.scaling import draw_scaling
from runner.render.html.search import SearchSection
from runner.render.html.tables import draw_table
from runner.render.tables import (
    Column,
    TableCell,
    make_metric_cell,
    make_table,
    make_value_column,
)
from runner.render.words import count_things, describe_interval

MOST_ROWS = 120
"""Cells whose peak is shown by op: each is a table of its own."""


def draw_sweep_page(
    records: Sequence[Record], folder: Path, unreadable: Sequence[UnreadableRecord] = ()
) -> str:
    """Return the page of the cells that have a record, in their order. One more chart is a line
    here and the function that draws it from the grid."""
    grid = CellGrid(records)
    effects = find_effects(grid)
    sought = objective.read_objective(folder)
    search = SearchSection(grid, sought) if sought else None
    sections: list[tuple[str, Iterable[Node]]] = [
        ("What can't be read", (tag("p", problem.sentence) for problem in unreadable)),
        ("What was searched for", search.draw() if search else []),
        ("What each swept field does", _draw_effects(effects)),
        ("Cells, smallest peak first", _draw_cells(grid)),
        ("What did not complete", _draw_failures(grid)),
        *((f"Peak memory against {axis}", draw_scaling(grid, axis)) for axis in grid.axes()),
        ("What leaks", _draw_leaks(grid)),
        ("Every tensor of the peak's step", draw_highest_lives(grid)),
        ("More", _draw_more(grid, effects, provenance.find_sweep_command(folder, grid.cells))),
    ]
    sentences = [search.write_sentence()] if search else list_sentences(grid, effects)
    title = _write_title(grid)
    header = tag(
        "header",
        tag("h1", title),
        tag("p.asked", " · ".join(_count_cells(grid, folder))),
        (tag("p.sentence", words) for words in sentences),
    )
    return write_document(
        title, header, draw_sections(sections), tag("footer", f"Sweep in {folder.resolve()}")
    )


def _write_title(grid: CellGrid) -> str:
    """Return what was asked, in a line: `python_loop, while_loop × batch 32, 128`."""
    if not grid.varied:
        return grid.label(grid.records[0], ["scenario", "execution"])
    parts = [] if "scenario" in grid.varied else [grid.values["scenario"][0]]
    for name in grid.varied:
        values = grid.values[name]
        words = ", ".join(values) if len(values) <= 5 else f"{values[0]} ... {values[-1]}"
        parts.append(selection.name_value(name, words))
    return " × ".join(parts)


def _count_cells(grid: CellGrid, folder: Path) -> Iterator[str]:
    statuses = Counter(cell.outcome.status for cell in grid.cells)
    counts = (f"{count} {status.replace('_', ' ')}" for status, count in statuses.most_common())
    yield f"{count_things(len(grid.cells), 'cell')}: {', '.join(counts)}"
    if grid.has_replicates:
        yield f"a row has the seeds {', '.join(grid.values['seed'])}"
    trials = sum(len(cell.trials) for cell in grid.cells)
    yield count_things(trials, "process", "processes")
    yield f"measure={', '.join(grid.values['measure'])}"
    yield provenance.format_time(min(cell.started_at for cell in grid.cells))
    begun = sum(1 for place in folder.iterdir() if place.name.isdigit() and place.is_dir())
    if begun > len(grid.cells):
        left = count_things(begun - len(grid.cells), "more cell has", "more cells have")
        yield f"{left} no record yet"


def _draw_effects(effects: Sequence[Effect]) -> Iterator[Node]:
    """Draw for each metric that speaks a row a field: the ratio of the two values in each place of
    the grid, and of times their average with its interval."""
    rows: list[charts.ChartRow] = []
    for name in choose_headlines(effects):
        heading = METRICS[name].noun or METRICS[name].label
        for effect in (effect for effect in effects if effect.metric == name):
            marks = _mark_ratios(effect)
            rows.append(
                charts.ChartRow(
                    f"{effect.candidate} / {name_without_field(effect, effect.baseline)}",
                    marks,
                    describe_size(effect),
                    "" if marks else describe_effect(effect),
                    heading,
                )
            )
            heading = ""
    ratios = [dot.value for row in rows for dot in row.marks]
    if ratios:
        words = "How many times as much; a dot for each two cells that differ in the field alone"
        average = ", of time a large one for their average with its 95 % interval"
        yield tag("p.note", f"{words}{average * any(effect.average for effect in effects)}.")
        scale = LogScale(min(0.9, *ratios) / 1.1, max(2.0, *ratios) * 1.1, _write_ratio)
        yield charts.draw_dots(rows, _write_ratio, scale)


_write_ratio = "{:.3g}×".format


def _mark_ratios(effect: Effect) -> list[charts.ChartMark]:
    kind = "one" if effect.average else "steady"
    dots = []
    for row in effect.rows:
        if row.ratio:
            place = ", ".join(starmap(selection.name_value, row.held.items()))
            words = f"{place}: {row.ratio:,.3g} times, {row.explanation}".removeprefix(": ")
            dots.append(charts.ChartMark(kind, row.ratio, words))
    if effect.average and effect.average.ratio:
        words = f"average: {effect.average.ratio:,.3g} times, {effect.average.explanation}"
        dots.append(
            charts.ChartMark("steady", effect.average.ratio, words, effect.average.interval)
        )
    return dots


def _draw_cells(grid: CellGrid) -> Iterator[Node]:
    """Draw the table of all cells. A phone has the cell's name in place of its fields."""
    longest = max((record.metrics.get(TENSOR_PEAK) or 0 for record in grid.records), default=0)
    splits = [
        record.allocations.split
        for record in grid.records
        if record.allocations and record.allocations.split and record.outcome.completed
    ]

    def read_field(record: Record, name: str) -> TableCell:
        return TableCell(grid.word(record, name), value=grid.number(record, name))

    def read_outcome(record: Record) -> TableCell:
        mark = "✓ " if record.outcome.completed else "✗ "
        failed = None if record.outcome.completed else "failed"
        sign = tag("span", mark, aria_hidden="true")
        drawn = tag("span", sign, record.outcome.words, class_=failed)
        return TableCell("", remark=record.outcome.reason or "", drawn=drawn)

    def read_parts(record: Record) -> Element | None:
        peak_bytes = record.metrics.get(TENSOR_PEAK)
        split = record.allocations.split if record.allocations else None
        if not peak_bytes:
            return None
        parts = peak_sections.split_parts(split, peak_bytes)
        bar = charts.draw_bar(parts, longest, "track small")
        return tag("div.which", bar, title=peak.describe_split(split) or None)

    def read_figure(record: Record, name: str) -> TableCell:
        cell = make_metric_cell(record, name)
        if METRICS[name].is_growth and cell.value == 0:
            cell = replace(cell, text="none")
        spread = describe_interval(record, name) if grid.seeds[record.cell] > 1 else ""
        drawn = tag("span", cell.text, tag("small", spread)) if spread else None
        return replace(cell, drawn=drawn)

    def order(record: Record) -> tuple[bool, float]:
        value = record.metrics.get(TENSOR_PEAK)
        return value is None, value or 0.0

    grown = [
        name
        for name, metric in METRICS.items()
        if metric.is_growth and any(record.metrics.get(name) for record in grid.records)
    ]
    shown = {*list_shown(Rank.TABLE), *grown}
    figures = [
        make_value_column(name, partial(read_figure, name=name))
        for name in sorted(METRICS, key=lambda name: METRICS[name].rank > Rank.HEADLINE)
        if name in shown and any(record.metrics.get(name) is not None for record in grid.records)
    ]
    columns: list[Column[Record]] = [
        Column("cell", grid.label, look="phone"),
        *(Column(selection.shorten_field(name), partial(read_field, name=name), name,
                 is_figure=all(grid.number(record, name) is not None for record in grid.records),
                 look="desk")
          for name in grid.varied),
        *([] if all(record.outcome.completed for record in grid.records) else
          [Column("outcome", read_outcome)]),
        *figures[:1],
        Column("of which", read_parts, look="desk"),
        *figures[1:],
    ]  # fmt: skip
    table = make_table(columns, sorted(grid.records, key=order))
    yield draw_table(table, "all cells", is_sortable=True)
    if splits:
        yield peak_sections.draw_parts_legend(splits)


def _draw_leaks(grid: CellGrid) -> Iterator[Node]:
    for record in grid.records:
        if record.allocations and record.allocations.leaks:
            table = peak_sections.draw_leaks(record.allocations)
            yield tag("details", tag("summary", grid.label(record)), table)


def _draw_more(grid: CellGrid, effects: Sequence[Effect], command: str | None) -> Iterator[Node]:
    """Draw what the rest stands on, to be opened."""
    rows = [row for effect in effects for row in effect.rows]
    pairs = [draw_table(make_comparison_table(rows), "pairs", is_sortable=True)] if rows else []
    parts: list[tuple[str, Iterable[Node]]] = [
        (f"All {count_things(len(rows), 'pair')} behind it, with their intervals", pairs),
        ("What could not be measured", _draw_unknown(grid)),
        ("What each peak is made of", _draw_slices(grid)),
        ("What was asked", [
            provenance.draw_code(command) if command else None,
            provenance.list_specification(grid),
        ]),
        ("Measured on", [provenance.list_environment(grid.cells)]),
    ]  # fmt: skip
    for title, content in parts:
        if nodes := list(content):
            yield tag("details", tag("summary", title), tag("div", nodes))


def _draw_failures(grid: CellGrid) -> Iterator[Node]:
    """Draw cells that came to the same end together, with the reason that the first one gave."""
    by_end: dict[tuple[str, str], list[Record]] = {}
    for record in grid.cells:
        if not record.outcome.completed:
            first_line, *_ = (record.outcome.reason or "").strip().splitlines() or [""]
            key = (record.outcome.words, _mask_numbers(first_line))
            by_end.setdefault(key, []).append(record)
    for (ended, _), records in by_end.items():
        is_unsupported = records[0].outcome.status is Status.UNSUPPORTED
        mark = tag("span", "– " if is_unsupported else "✗ ", aria_hidden="true")
        count = f"{len(records)} cells " if len(records) > 1 else ""
        yield tag("h3", mark, f"{count}{ended}", class_=not is_unsupported and "failed")
        names = [*grid.varied, *(["seed"] if grid.has_replicates else [])]
        yield tag("p", "; ".join(grid.label(record, names) for record in records))
        yield provenance.draw_code(records[0].outcome.reason or "no reason is known")


def _draw_unknown(grid: CellGrid) -> Iterator[Node]:
    """Draw why completed cells lack a figure; reasons that differ in their numbers alone are
    one."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for record in grid.cells:
        if record.outcome.completed:
            for name, why in record.unavailable.items():
                by_reason.setdefault((name, _mask_numbers(why)), []).append(why)
    items = []
    for (name, _), reasons in by_reason.items():
        example = ", for example" if len(set(reasons)) > 1 else ""
        count = f"{len(reasons)} of {count_things(len(grid.records), 'cell')}"
        items.append(tag("li", tag("code", name), f" in {count}{example}: {reasons[0]}"))
    if items:
        yield tag("ul", items)


def _mask_numbers(text: str) -> str:
    return re.sub(r"\d[\d.,]*", "#", text)


def _draw_slices(grid: CellGrid) -> Iterator[Node]:
    """Draw a table a cell, to be opened."""
    records = [row.record for _, group in grid.groups() for row in group]
    known = [record for record in records if record.allocations and record.allocations.groups]
    for record in known[:MOST_ROWS]:
        allocations = record.allocations
        assert allocations
        until = "" if record.outcome.completed else f", {record.outcome.words}"
        words = f"{format_bytes(allocations.total_bytes)}, {peak.name_moment(allocations)}{until}"
        summary = tag("summary", f"{grid.label(record)}: {words}")
        yield tag("details", summary, peak_sections.draw_ops(allocations, most=8))
