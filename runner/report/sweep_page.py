"""A sweep's page: the sentence that decides, then memory, time, the table, and what went wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar
from xml.etree.ElementTree import Element

from runner.errors import BadInput
from runner.judging import comparison, objective, selection, sentence
from runner.judging.comparison import Comparison
from runner.judging.selection import Grid
from runner.metrics import METRICS, readable, readable_bytes, readable_seconds
from runner.records import Record, Status
from runner.report import asked, peak, picture
from runner.report.along import Along
from runner.report.charts import Bar, Dot, Dots, Part, bars, dots, legend
from runner.report.markup import Node, page, tag
from runner.report.searched import Searched
from runner.report.tables import (
    Cell,
    Head,
    between,
    exactly,
    metric_cell,
    metric_head,
    ratio,
    table,
    times,
)

MOST_ROWS = 120
"""Of a chart with a row a cell; the table has them all."""

_PEAK = "tensor_peak_bytes"
_GROWTH = ("tensor_growth_bytes_per_step", "host_growth_bytes_per_step")
_COLUMNS = (
    _PEAK,
    "tensor_step_peak_bytes",
    "tensor_growth_bytes_per_step",
    "host_peak_bytes",
    "host_growth_bytes_per_step",
    "step_seconds",
    "first_call_seconds",
    "examples_per_second",
    "graph_traces",
)


def sweep_page(records: Sequence[Record], folder: Path) -> str:
    """`records`: of the cells that have one, in their order."""
    grid = Grid(records)
    title = title_of(grid)
    compared = _compare(grid)
    alongs = [Along(grid, axis) for axis in grid.axes()]
    sought = objective.kept(folder)
    searched = Searched(grid, sought) if sought else None
    sections = [
        ("What was searched for", searched.content() if searched else iter([])),
        ("Peak memory by cell", _peaks(grid)),
        *((f"Peak memory against {each.axis}", each.content()) for each in alongs),
        ("All cells, smallest peak first", _table(grid)),
        ("Time of a steady step", _steps(grid)),
        ("First call against steady step", _first_calls(grid)),
        ("Growth from step to step", _growth(grid)),
        ("Compared in pairs", _pairs(compared)),
        ("What did not complete", _failures(grid)),
        ("What could not be measured", _unknown(grid)),
        ("Every tensor of the peak's step, two cells side by side", _lives(grid)),
        ("What each peak is made of", _made_of(grid)),
        ("What was asked", iter([asked.specification(grid)])),
        ("Measured on", iter([asked.environment(grid.records)])),
    ]
    drawn = [
        tag("section", tag("h2", name), content)
        for name, content in ((name, list(content)) for name, content in sections)
        if content
    ]
    words = asked.command(grid, folder)
    header = tag(
        "header",
        *(tag("h1", title), _counted(grid, folder), *_sentences(searched, compared, alongs)),
        asked.code(words) if words else None,
    )
    return page(title, header, drawn, tag("footer", f"Sweep in {folder.resolve()}"))


def title_of(grid: Grid) -> str:
    """What was asked, in a line: `python_loop, while_loop x batch 32, 128`."""
    if not grid.varied:
        return f"{grid.label(grid.records[0], ['scenario', 'execution'])}"
    parts = []
    for name in grid.varied:
        values = grid.values[name]
        words = ", ".join(values) if len(values) <= 5 else f"{values[0]} ... {values[-1]}"
        parts.append(selection.said(name, words))
    first = [] if "scenario" in grid.varied else [grid.values["scenario"][0]]
    return " × ".join([*first, *parts])


def _counted(grid: Grid, folder: Path) -> Element:
    statuses = Counter(record.outcome.status for record in grid.records)
    counts = ", ".join(
        f"{number} {status.replace('_', ' ')}" for status, number in statuses.most_common()
    )
    trials = sum(len(record.trials) for record in grid.records)
    begun = min(record.started_at for record in grid.records)
    words = [
        f"{len(grid.records)} cells: {counts}",
        f"{trials} processes",
        f"measure={', '.join(grid.values['measure'])}",
        asked.when(begun),
    ]
    begun_cells = sum(1 for each in folder.iterdir() if each.name.isdigit() and each.is_dir())
    if begun_cells > len(grid.records):
        words.append(f"{begun_cells - len(grid.records)} more cells have no record yet")
    return tag("p", " · ".join(words), class_="asked")


def _compare(grid: Grid) -> Comparison | None:
    """The comparison that `compare` makes of the same folder; None where there is no pair."""
    try:
        return comparison.compare(selection.by_field(grid.records).pairs)
    except BadInput:
        return None


def _sentences(
    searched: Searched | None, compared: Comparison | None, alongs: Sequence[Along]
) -> Iterator[Node]:
    if searched:
        yield tag("p", searched.sentence(), class_="sentence")
    elif compared:
        yield tag("p", f"{sentence.sentence(compared)}.", class_="sentence")
    for each in alongs:
        if words := each.sentence():
            yield tag("p", words, class_="sentence second")


# Memory.


def _peaks(grid: Grid) -> Iterator[Node]:
    splits = [
        record.allocations.split
        for record in grid.records
        if record.allocations and record.allocations.split and record.outcome.completed
    ]
    if splits:
        yield peak.kinds_legend(splits)
    yield from _charted(grid, peak_bar, bars)


def peak_bar(name: str, record: Record, heading: str) -> Bar:
    value = record.metrics.get(_PEAK)
    if value is None:
        return Bar(name, [], "–", _why(record, _PEAK), missing=True, heading=heading)
    split = record.allocations.split if record.allocations else None
    words = peak.split_words(split)
    return Bar(name, peak.parts(split, value), readable_bytes(value), words, heading=heading)


def _why(record: Record, metric: str) -> str:
    if not record.outcome.completed:
        return record.outcome.words
    return record.unavailable.get(metric, "does not apply")


_Row = TypeVar("_Row")
Make = Callable[[str, Record, str], _Row]
"""Makes a chart's row of a cell's name in its group, the cell, and the group's heading if it is
the first."""


def chart_rows(grid: Grid, make: Make[_Row]) -> list[_Row]:
    """A row a cell, those that differ in the first field side by side."""
    return [
        make(row.name, row.record, "" if number else heading)
        for heading, group in grid.groups()
        for number, row in enumerate(group)
    ]


def _charted(
    grid: Grid, make: Make[_Row], draw: Callable[[Sequence[_Row]], Element]
) -> Iterator[Node]:
    rows = chart_rows(grid, make)
    yield draw(rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        left = len(rows) - MOST_ROWS
        yield tag("p", f"And {left} more cells: the table has them all.", class_="note")


# The table.


def _table(grid: Grid) -> Iterator[Node]:
    columns = [
        name
        for name in _COLUMNS
        if any(record.metrics.get(name) is not None for record in grid.records)
    ]
    head = [
        *(Head(selection.short(name), name) for name in grid.varied),
        Head("outcome"),
        *map(metric_head, columns),
    ]

    def order(record: Record) -> tuple[bool, float]:
        value = record.metrics.get(_PEAK)
        return value is None, value or 0.0

    rows = [
        [
            *(_field(grid, record, name) for name in grid.varied),
            outcome_cell(record),
            *(metric_cell(record, name) for name in columns),
        ]
        for record in sorted(grid.records, key=order)
    ]
    yield table(head, rows, sortable=True, label="all cells")


def _field(grid: Grid, record: Record, name: str) -> Cell:
    number = grid.number(record, name)
    return Cell(grid.word(record, name), value=number, figure=number is not None)


def outcome_cell(record: Record) -> Cell:
    mark = "✓ " if record.outcome.completed else "✗ "
    return Cell(
        tag("span", tag("span", mark, aria_hidden="true"), record.outcome.words,
            class_=None if record.outcome.completed else "failed"),
        remark=record.outcome.reason or "",
    )  # fmt: skip


# Time and growth.


def _steps(grid: Grid) -> Iterator[Node]:
    if any(record.metrics.get("step_seconds") is not None for record in grid.records):
        yield tag(
            "p",
            "The median over processes of each one's median step, with its 95 % interval.",
            class_="note",
        )
        yield from _charted(grid, step_row, lambda rows: dots(rows, readable_seconds))


def step_row(name: str, record: Record, heading: str) -> Dots:
    value = record.metrics.get("step_seconds")
    if value is None:
        return Dots(name, [], "–", _why(record, "step_seconds"), missing=True, heading=heading)
    interval = record.intervals.get("step_seconds")
    dot = Dot("steady", value, exactly("step_seconds", value), interval)
    remark = (
        f"95 %: {between('step_seconds', interval)}" if interval else "one process: no interval"
    )
    return Dots(name, [dot], readable_seconds(value), remark, heading=heading)


def _first_calls(grid: Grid) -> Iterator[Node]:
    names = ("first_call_seconds", "step_seconds")
    if any(all(record.metrics.get(name) for name in names) for record in grid.records):
        yield legend([("dot steady", "steady step"), ("dot first", "first call, tracing and all")])
        yield from _charted(grid, _first_call_row, lambda rows: dots(rows, readable_seconds))


def _first_call_row(name: str, record: Record, heading: str) -> Dots:
    first, steady = (record.metrics.get(each) for each in ("first_call_seconds", "step_seconds"))
    if not first or not steady:
        return Dots(name, [], "–", _why(record, "step_seconds"), missing=True, heading=heading)
    return Dots(
        name,
        [
            Dot("steady", steady, f"steady step: {readable_seconds(steady)}"),
            Dot("first", first, f"first call: {readable_seconds(first)}"),
        ],
        times(first / steady),
        f"{readable_seconds(first)} against {readable_seconds(steady)}",
        heading=heading,
    )


def _growth(grid: Grid) -> Iterator[Node]:
    for name in _GROWTH:
        known = [record for record in grid.records if record.metrics.get(name) is not None]
        if not known:
            continue
        what = "Tensor memory" if name.startswith("tensor") else "Host memory"
        if not any(record.metrics[name] for record in known):
            cells = "the one cell" if len(known) == 1 else f"all {len(known)} cells"
            yield tag("p", f"{what} does not grow: 0 bytes a step in {cells} where it is known.")
            continue

        def row(label: str, record: Record, heading: str, name: str = name) -> Bar:
            value = record.metrics.get(name)
            if value is None:
                return Bar(label, [], "–", _why(record, name), missing=True, heading=heading)
            kind = "kept" if value > 0 else "held"
            interval = record.intervals.get(name)
            remark = between(name, interval) if interval and interval[0] != interval[1] else ""
            part = Part(kind, max(0.0, value), exactly(name, value))
            return Bar(label, [part], readable(name, value), remark, heading=heading)

        yield tag("h3", f"{what}, bytes a step")
        yield from _charted(grid, row, bars)
    yield from _leaks(grid)


def _leaks(grid: Grid) -> Iterator[Node]:
    for record in grid.records:
        allocations = record.allocations
        if allocations and allocations.leaks:
            shown = peak.leaks(allocations)
            yield tag("details", tag("summary", f"What leaks: {grid.label(record)}"), *shown)


# Pairs.


def _pairs(compared: Comparison | None) -> Iterator[Node]:
    """Every row of the comparison, as `compare` has it."""
    if compared is None:
        return
    rows = []
    for row in compared.rows:
        pair = row.pair
        held = ", ".join(f"{selection.short(name)} {value}" for name, value in pair.held.items())
        if row.metric in METRICS:
            label = METRICS[row.metric].label
            values = (row.candidate, row.baseline)
            figures = [Cell(readable(row.metric, each), value=each, figure=True) for each in values]
        else:
            label = row.metric
            figures = [Cell(each.outcome.words) for each in (pair.candidate, pair.baseline)]
        interval = ""
        if row.interval:
            low, high = row.interval
            interval = "exact" if low == high else f"{ratio(low)} to {ratio(high)}"
        rows.append(
            [
                Cell(held or "–"),
                Cell(f"{pair.candidate_name} against {pair.baseline_name}"),
                Cell(label),
                *figures,
                Cell("" if row.ratio is None else ratio(row.ratio), value=row.ratio, figure=True),
                Cell(interval),
                Cell(row.explanation, wraps=True),
            ]
        )
    head = [
        *(Head("at"), Head("cells"), Head("metric"), Head("value", figure=True)),
        *(Head("against", figure=True), Head("ratio", figure=True), Head("95 %"), Head("verdict")),
    ]
    verdicts = Counter(str(row.verdict) for row in compared.rows)
    counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    rest = f"; the intervals hold together, over {compared.tested} rows" if compared.tested else ""
    yield tag("p", f"{counts}{rest}.")
    yield tag(
        "details",
        tag("summary", f"All {len(rows)} rows"),
        table(head, rows, sortable=True, label="comparison"),
    )


# What went wrong.


def _failures(grid: Grid) -> Iterator[Node]:
    """Cells that came to the same end stand together, with the reason that the first one gave."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in grid.records:
        if not record.outcome.completed:
            first_line, *_ = (record.outcome.reason or "").strip().splitlines() or [""]
            key = (record.outcome.words, _numberless(first_line))
            found.setdefault(key, []).append(record)
    for (ended, _), records in found.items():
        reason = records[0].outcome.reason or "no reason is known"
        names = "; ".join(grid.label(record) for record in records)
        unsupported = records[0].outcome.status is Status.UNSUPPORTED
        mark = tag("span", "– " if unsupported else "✗ ", aria_hidden="true")
        count = f"{len(records)} cells " if len(records) > 1 else ""
        yield tag("h3", mark, f"{count}{ended}", class_=None if unsupported else "failed")
        yield tag("p", names)
        yield asked.code(reason)


def _unknown(grid: Grid) -> Iterator[Node]:
    """Why completed cells lack a figure; reasons that differ in their numbers alone are one."""
    found: dict[tuple[str, str], list[str]] = {}
    for record in grid.records:
        if record.outcome.completed:
            for name, why in record.unavailable.items():
                found.setdefault((name, _numberless(why)), []).append(why)
    items = []
    for (name, _), reasons in found.items():
        example = ", for example" if len(set(reasons)) > 1 else ""
        where = f" in {len(reasons)} of {len(grid.records)} cells{example}: {reasons[0]}"
        items.append(tag("li", tag("code", name), where))
    if items:
        yield tag("ul", items)


def _numberless(text: str) -> str:
    return re.sub(r"\d[\d.,]*", "#", text)


def _lives(grid: Grid) -> Iterator[Node]:
    found = [picture.Told.of(grid.label(record), record.allocations) for record in grid.records]
    if told := [each for each in found if each]:
        yield picture.pair(told)


def _made_of(grid: Grid) -> Iterator[Node]:
    """A table a cell, to be opened; the largest peak is open."""
    known = [
        record
        for _, group in grid.groups()
        for record in (row.record for row in group)
        if record.allocations and record.allocations.groups
    ]
    for record in known[:MOST_ROWS]:
        assert record.allocations is not None
        total = readable_bytes(record.allocations.total_bytes)
        summary = f"{grid.label(record)}: {total}, {peak.moment(record.allocations)}"
        yield tag("details", tag("summary", summary), peak.groups_table(record.allocations, most=8))
