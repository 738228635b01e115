"""Peak memory along a number that was swept: a plot, and the law of each line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from runner.analysis import selection
from runner.analysis.law import FEWEST_SIZES, Law, Shape, find_law
from runner.analysis.selection import CellGrid, Series
from runner.analysis.tolerance import find_tolerance
from runner.metrics import METRICS, TENSOR_PEAK, format_bytes
from runner.render.html.charts import SERIES, PlotLine, draw_plot
from runner.render.html.elements import Node, tag
from runner.render.html.scales import choose_scale
from runner.render.html.tables import draw_table
from runner.render.tables import Column, TableCell, make_table
from runner.render.words import count_things, format_exact_bytes

MOST_LINES = 24
"""A plot has so many lines; the table below it has them all."""

_format_number = "{:,.6g}".format


@dataclass(frozen=True)
class ScalingLine:
    """Cells that differ in the one number alone; what is known of their peaks."""

    name: str
    series: Series

    @cached_property
    def points(self) -> list[tuple[float, int]]:
        return [
            (x, int(value))
            for x, record in self.series.points
            if (value := record.metrics.get(TENSOR_PEAK)) is not None
        ]

    @cached_property
    def law(self) -> Law | None:
        ranges = (record.intervals.get(TENSOR_PEAK) for _, record in self.series.points)
        return find_law(self.points, find_tolerance(METRICS[TENSOR_PEAK]).widen(ranges))

    @property
    def missing(self) -> str:
        """Return where there is no peak, and why."""
        return "; ".join(
            f"{record.outcome.words} at {_format_number(x)}"
            for x, record in self.series.points
            if record.metrics.get(TENSOR_PEAK) is None
        )


def draw_scaling(grid: CellGrid, axis: str) -> Iterator[Node]:
    """Draw peak memory along a number that was swept, and under the plot a row a line with its law;
    nothing where no line has three sizes, as two lie on any line."""
    lines = list_scaling_lines(grid, axis)
    if all(len(line.points) < FEWEST_SIZES for line in lines):
        return
    short = selection.shorten_field(axis)
    drawn = [line for line in lines if len(line.points) > 1][:MOST_LINES]
    points = [point for line in drawn for point in line.points]
    xs = sorted({x for x, _ in points})
    yield draw_plot(
        [_draw_line(series, line, short) for series, line in enumerate(drawn)],
        choose_scale(xs, _format_number, at=xs),
        choose_scale([y for _, y in points], format_bytes),
        summary=f"Peak tensor memory against {axis}, {count_things(len(drawn), 'line')}; the table "
        "below has the figures.",
        x_name=axis,
    )

    def read_name(line: ScalingLine) -> TableCell:
        mark = tag(f"i.mark.m{drawn.index(line) % SERIES}") if line in drawn else None
        return TableCell(line.name, drawn=tag("span.marked", mark, line.name))

    def describe_law(line: ScalingLine) -> str:
        if line.law is None:
            return ""
        is_clear = line.law.shape is not Shape.UNCLEAR
        return line.law.describe(short) if is_clear else "no simple law"

    def read_exponent(line: ScalingLine) -> TableCell:
        exponent = line.law.exponent if line.law else None
        return TableCell("" if exponent is None else f"{exponent:.2f}", value=exponent)

    def write_formula(line: ScalingLine) -> str:
        if not line.law or not line.law.polynomial:
            return ""
        exactness = "to the byte" if line.law.exact else "about"
        return f"{line.law.write_formula(short)} ({exactness})"

    columns: list[Column[ScalingLine]] = [
        Column("cells", read_name),
        Column("peak memory is", describe_law),
        Column("exponent", read_exponent, "the slope of log bytes against log size: 0 flat, "
               "1 linear, 2 a square; a constant part makes it smaller", is_figure=True),
        Column("law", write_formula),
        Column("from, to", lambda line: " to ".join(format_bytes(line.points[end][1])
               for end in (0, -1)) if line.points else "", is_figure=True),
        Column("without a peak", lambda line: line.missing),
    ]  # fmt: skip
    yield draw_table(make_table(columns, lines), f"laws of peak memory against {axis}")


def list_scaling_lines(grid: CellGrid, axis: str) -> list[ScalingLine]:
    """Return the lines in their order. Those that lie on each other, to the byte, are one with
    several names; what has lost a point is like nothing else, and keeps its own reason."""
    groups: dict[object, list[ScalingLine]] = {}
    for series in grid.series(axis):
        line = ScalingLine(series.name, series)
        is_whole = len(line.points) == len(series.points)
        groups.setdefault(tuple(line.points) if is_whole else line.name, []).append(line)
    return [
        ScalingLine("; ".join(line.name for line in same), same[0].series)
        for same in groups.values()
    ]


def _draw_line(series: int, line: ScalingLine, short: str) -> PlotLine:
    texts = [
        f"{line.name}: {format_exact_bytes(y)} at {short} {_format_number(x)}"
        for x, y in line.points
    ]
    return PlotLine(line.points, texts, series, is_marked=True)
