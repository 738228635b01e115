"""A sweep's page: the sentence that decides, then memory, time, the table, and what went wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import Element

from runner.analysis import comparison, objective, selection
from runner.analysis.comparison import Comparison
from runner.analysis.effects import find_effects
from runner.analysis.selection import CellGrid
from runner.errors import BadInput
from runner.metrics import (
    FIRST_CALL_SECONDS,
    METRICS,
    STEP_SECONDS,
    TENSOR_PEAK,
    Rank,
    format_bytes,
    format_metric,
    format_seconds,
    list_shown,
)
from runner.records import Record, Status, UnreadableRecord
from runner.render import peak
from runner.render.comparison import make_comparison_table
from runner.render.conclusion import list_sentences
from runner.render.html import charts, peak_sections, provenance
from runner.render.html.elements import Node, draw_sections, tag, write_document
from runner.render.html.lives import draw_two_lives
from runner.render.html.scaling import Scaling
from runner.render.html.search import SearchSection
from runner.render.html.tables import draw_table
from runner.render.tables import Column, TableCell, make_metric_column, make_table
from runner.render.words import (
    count_things,
    describe_interval,
    describe_time,
    format_exactly,
    format_figure,
    format_times,
)

MOST_ROWS = 120
"""A chart with a row a cell ends here; the table has them all."""


def draw_sweep_page(
    records: Sequence[Record], folder: Path, unreadable: Sequence[UnreadableRecord] = ()
) -> str:
    """Return the page of the cells that have a record, in their order. One more chart is a line
    here and the function that draws it from the grid."""
    grid = CellGrid(records)
    compared = _compare(grid)
    scalings = [Scaling(grid, axis) for axis in grid.axes()]
    sought = objective.read_objective(folder)
    search = SearchSection(grid, sought) if sought else None
    sections: list[tuple[str, Iterable[Node]]] = [
        ("What can't be read", (tag("p", each.sentence) for each in unreadable)),
        ("What was searched for", search.draw() if search else []),
        ("Peak memory by cell", _draw_peaks(grid)),
        *((f"Peak memory against {each.axis}", each.draw()) for each in scalings),
        ("All cells, smallest peak first", _draw_cells(grid)),
        ("Time of a steady step", _draw_steps(grid)),
        ("First call against steady step", _draw_first_calls(grid)),
        ("Growth from step to step", _draw_growth(grid)),
        ("Compared in pairs", _draw_pairs(compared)),
        ("What did not complete", _draw_failures(grid)),
        ("What could not be measured", _draw_unknown(grid)),
        ("Every tensor of the peak's step, two cells side by side", draw_two_lives(grid)),
        ("What each peak is made of", _draw_slices(grid)),
        ("What was asked", [provenance.list_specification(grid)]),
        ("Measured on", [provenance.list_environment(grid.records)]),
    ]
    sentences = [search.write_sentence()] if search else []
    if not search:
        sentences = list_sentences(grid, find_effects(grid))
    command = provenance.find_sweep_command(folder, grid.cells)
    title = _write_title(grid)
    header = tag(
        "header",
        tag("h1", title),
        tag("p.asked", " · ".join(_count_cells(grid, folder))),
        (tag("p.sentence", words) for words in sentences),
        provenance.draw_code(command) if command else None,
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
    statuses = Counter(record.outcome.status for record in grid.records)
    counts = (f"{count} {status.replace('_', ' ')}" for status, count in statuses.most_common())
    yield f"{count_things(len(grid.records), 'cell')}: {', '.join(counts)}"
    trials = sum(len(record.trials) for record in grid.records)
    yield count_things(trials, "process", "processes")
    yield f"measure={', '.join(grid.values['measure'])}"
    yield provenance.format_time(min(record.started_at for record in grid.records))
    begun = sum(1 for each in folder.iterdir() if each.name.isdigit() and each.is_dir())
    if begun > len(grid.records):
        left = count_things(begun - len(grid.records), "more cell has", "more cells have")
        yield f"{left} no record yet"


def _compare(grid: CellGrid) -> Comparison | None:
    """Return the comparison that `compare` makes of the same folder; None where there is no
    pair."""
    try:
        return comparison.compare(selection.pair_by_field(grid.records).pairs)
    except BadInput:
        return None


CellMarks = tuple[Sequence[charts.ChartMark], str, str]
"""The marks of a cell's value, its figure and a remark."""


def _draw_chart(
    grid: CellGrid,
    metric: str,
    read: Callable[[Record, float], CellMarks | None],
    draw: Callable[[Sequence[charts.ChartRow]], Element],
) -> Iterator[Node]:
    """Draw a row a cell, those that differ in the first field side by side; where a cell has no
    figure, why."""
    rows: list[charts.ChartRow] = []
    for heading, group in grid.groups():
        for number, (name, record) in enumerate((row.name, row.record) for row in group):
            value = record.metrics.get(metric)
            found = None if value is None else read(record, value)
            why = record.unavailable.get(metric, "does not apply")
            absence = why if record.outcome.completed else record.outcome.words
            marks, figure, remark = found or ([], "–", absence)
            rows.append(charts.ChartRow(name, marks, figure, remark, "" if number else heading))
    yield draw(rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        left = count_things(len(rows) - MOST_ROWS, "more cell")
        yield tag("p.note", f"And {left}: the table has them all.")


def _draw_peaks(grid: CellGrid) -> Iterator[Node]:
    splits = [
        record.allocations.split
        for record in grid.records
        if record.allocations and record.allocations.split and record.outcome.completed
    ]
    if splits:
        yield peak_sections.draw_parts_legend(splits)

    def read(record: Record, value: float) -> CellMarks:
        split = record.allocations.split if record.allocations else None
        parts = peak_sections.split_parts(split, value)
        return parts, format_figure(record, TENSOR_PEAK), peak.describe_split(split)

    yield from _draw_chart(grid, TENSOR_PEAK, read, charts.draw_bars)


_draw_times = partial(charts.draw_dots, text=format_seconds)


def _draw_steps(grid: CellGrid) -> Iterator[Node]:
    def read(record: Record, value: float) -> CellMarks:
        interval = record.intervals.get(STEP_SECONDS)
        dot = charts.ChartMark("steady", value, format_exactly(STEP_SECONDS, value), interval)
        words = describe_time(record, STEP_SECONDS)
        return [dot], format_seconds(value), words or "one process"

    if any(record.metrics.get(STEP_SECONDS) is not None for record in grid.records):
        words = "The median over processes of each one's median step, with its 95 % interval."
        yield tag("p.note", words)
        yield from _draw_chart(grid, STEP_SECONDS, read, _draw_times)


def _draw_first_calls(grid: CellGrid) -> Iterator[Node]:
    def read(record: Record, steady: float) -> CellMarks | None:
        first = record.metrics.get(FIRST_CALL_SECONDS)
        if not first or not steady:
            return None
        words = format_seconds(first), format_seconds(steady)
        dots = [
            charts.ChartMark("steady", steady, f"steady step: {words[1]}"),
            charts.ChartMark("first", first, f"first call: {words[0]}"),
        ]
        return dots, format_times(first / steady), " against ".join(words)

    if any(read(each, each.metrics.get(STEP_SECONDS) or 0) for each in grid.records):
        looks = [("key dot steady", "steady step"), ("key dot first", "first call, with tracing")]
        yield charts.draw_legend(looks)
        yield from _draw_chart(grid, STEP_SECONDS, read, _draw_times)


def _draw_growth(grid: CellGrid) -> Iterator[Node]:
    for name in (name for name in METRICS if METRICS[name].is_growth):
        known = [record for record in grid.records if record.metrics.get(name) is not None]
        what = "Tensor memory" if METRICS[name].source == "memory" else "Host memory"

        def read(record: Record, value: float, name: str = name) -> CellMarks:
            kind = "kept" if value > 0 else "held"
            part = charts.ChartMark(kind, max(0.0, value), format_exactly(name, value))
            return [part], format_metric(name, value), describe_interval(record, name)

        if any(record.metrics[name] for record in known):
            yield tag("h3", f"{what}, bytes a step")
            yield from _draw_chart(grid, name, read, charts.draw_bars)
        elif known:
            cells = "the one cell" if len(known) == 1 else f"all {len(known)} cells"
            yield tag("p", f"{what} does not grow: 0 bytes a step in {cells} where it is known.")
    for record in grid.records:
        if record.allocations and record.allocations.leaks:
            table = peak_sections.draw_leaks(record.allocations)
            yield tag("details", tag("summary", f"What leaks: {grid.label(record)}"), table)


def _draw_cells(grid: CellGrid) -> Iterator[Node]:
    def read_field(record: Record, name: str) -> TableCell:
        return TableCell(grid.word(record, name), value=grid.number(record, name))

    def read_outcome(record: Record) -> TableCell:
        is_good = record.outcome.completed
        mark = tag("span", "✓ " if is_good else "✗ ", aria_hidden="true")
        words = tag("span", mark, record.outcome.words, class_=not is_good and "failed")
        return TableCell("", remark=record.outcome.reason or "", drawn=words)

    def order(record: Record) -> tuple[bool, float]:
        value = record.metrics.get(TENSOR_PEAK)
        return value is None, value or 0.0

    columns = [
        *(Column[Record](selection.shorten_field(name), partial(read_field, name=name), name,
                         is_figure=all(grid.number(each, name) is not None
                                       for each in grid.records))
          for name in grid.varied),
        Column("outcome", read_outcome),
        *(make_metric_column(name) for name in list_shown(Rank.PAGE)
          if any(record.metrics.get(name) is not None for record in grid.records)),
    ]  # fmt: skip
    table = make_table(columns, sorted(grid.records, key=order))
    yield draw_table(table, "all cells", is_sortable=True)


def _draw_pairs(compared: Comparison | None) -> Iterator[Node]:
    """Draw every row of the comparison, as `compare` has it."""
    if compared is None:
        return
    verdicts = Counter(str(row.verdict) for row in compared.rows)
    counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    rest = f"; the intervals hold together, over {count_things(compared.tested, 'row')}"
    yield tag("p", f"{counts}{rest * bool(compared.tested)}.")
    table = draw_table(make_comparison_table(compared.rows), "comparison", is_sortable=True)
    yield tag("details", tag("summary", f"All {count_things(len(compared.rows), 'row')}"), table)


def _draw_failures(grid: CellGrid) -> Iterator[Node]:
    """Draw cells that came to the same end together, with the reason that the first one gave."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in grid.records:
        if not record.outcome.completed:
            first_line, *_ = (record.outcome.reason or "").strip().splitlines() or [""]
            key = (record.outcome.words, _mask_numbers(first_line))
            found.setdefault(key, []).append(record)
    for (ended, _), records in found.items():
        is_unsupported = records[0].outcome.status is Status.UNSUPPORTED
        mark = tag("span", "– " if is_unsupported else "✗ ", aria_hidden="true")
        count = f"{len(records)} cells " if len(records) > 1 else ""
        yield tag("h3", mark, f"{count}{ended}", class_=not is_unsupported and "failed")
        yield tag("p", "; ".join(grid.label(record) for record in records))
        yield provenance.draw_code(records[0].outcome.reason or "no reason is known")


def _draw_unknown(grid: CellGrid) -> Iterator[Node]:
    """Draw why completed cells lack a figure; reasons that differ in their numbers alone are
    one."""
    found: dict[tuple[str, str], list[str]] = {}
    for record in grid.records:
        if record.outcome.completed:
            for name, why in record.unavailable.items():
                found.setdefault((name, _mask_numbers(why)), []).append(why)
    items = []
    for (name, _), reasons in found.items():
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
    known = [each for each in records if each.allocations and each.allocations.groups]
    for record in known[:MOST_ROWS]:
        found = record.allocations
        assert found
        until = "" if record.outcome.completed else f", {record.outcome.words}"
        words = f"{format_bytes(found.total_bytes)}, {peak.name_moment(found)}{until}"
        summary = tag("summary", f"{grid.label(record)}: {words}")
        yield tag("details", summary, peak_sections.draw_ops(found, most=8))
