"""Peak memory along a number that was swept: its lines, their laws, and the words for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from runner.analysis import selection
from runner.analysis.law import Law, find_law
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


class Scaling:
    """All lines along one axis, in their order."""

    def __init__(self, grid: CellGrid, axis: str) -> None:
        self.axis = axis
        self.short = selection.shorten_field(axis)
        self._each = [ScalingLine(series.name, series) for series in grid.series(axis)]
        # Lines that lie on each other, to the byte, are one with several names. What has lost a
        # point is like nothing else, and keeps its own reason.
        found: dict[object, list[ScalingLine]] = {}
        for line in self._each:
            is_whole = len(line.points) == len(line.series.points)
            found.setdefault(tuple(line.points) if is_whole else line.name, []).append(line)
        self.lines = [
            ScalingLine("; ".join(line.name for line in same), same[0].series)
            for same in found.values()
        ]

    def write_sentence(self) -> str:
        """Return what peak memory does along the axis, in as few words as that takes."""
        found: dict[str, list[str]] = {}
        for line in self._each:
            if line.law:
                found.setdefault(line.law.describe(self.short), []).append(line.name)
        if len(found) == 1:
            ((words, names),) = found.items()
            count, total = len(names), len(self._each)
            where = {1: "", 2: " in both groups of cells"}.get(
                total, f" in all {total} groups of cells"
            )
            where = f" in {count} of {total} groups of cells" if count < total else where
            return f"Peak memory is {words}{where}."
        clauses = [
            f"{words} for {names[0] if len(names) == 1 else f'{len(names)} groups of cells'}"
            for words, names in sorted(found.items(), key=lambda item: -len(item[1]))
        ]
        return f"Peak memory against {self.short}: {'; '.join(clauses)}." if clauses else ""

    def draw(self) -> Iterator[Node]:
        """Draw the plot, and under it a row a line with its law."""
        drawn = [line for line in self.lines if len(line.points) > 1][:MOST_LINES]
        if drawn:
            points = [point for line in drawn for point in line.points]
            count = count_things(len(drawn), "line")
            xs = sorted({x for x, _ in points})
            yield draw_plot(
                [self._draw_line(series, line) for series, line in enumerate(drawn)],
                choose_scale(xs, _format_number, at=xs),
                choose_scale([y for _, y in points], format_bytes),
                summary=f"Peak tensor memory against {self.axis}, {count}; the table below has the "
                "figures.",
                x_name=self.axis,
            )

        def read_name(line: ScalingLine) -> TableCell:
            mark = tag(f"i.mark.m{drawn.index(line) % SERIES}") if line in drawn else None
            return TableCell(line.name, drawn=tag("span.marked", mark, line.name))

        def read_exponent(line: ScalingLine) -> TableCell:
            exponent = line.law.exponent if line.law else None
            return TableCell("" if exponent is None else f"{exponent:.2f}", value=exponent)

        def write_formula(line: ScalingLine) -> str:
            if not line.law or not line.law.polynomial:
                return ""
            exactness = "to the byte" if line.law.exact else "about"
            return f"{line.law.write_formula(self.short)} ({exactness})"

        columns: list[Column[ScalingLine]] = [
            Column("cells", read_name),
            Column("peak memory is", lambda line: line.law.describe(self.short) if line.law else
                   "too few sizes to tell"),
            Column("exponent", read_exponent, "the slope of log bytes against log size: 0 flat, "
                   "1 linear, 2 a square; a constant part makes it smaller", is_figure=True),
            Column("law", write_formula),
            Column("from, to", lambda line: " to ".join(format_bytes(line.points[end][1])
                   for end in (0, -1)) if line.points else "", is_figure=True),
            Column("without a peak", lambda line: line.missing),
        ]  # fmt: skip
        yield draw_table(
            make_table(columns, self.lines), f"laws of peak memory against {self.axis}"
        )

    def _draw_line(self, series: int, line: ScalingLine) -> PlotLine:
        texts = [
            f"{line.name}: {format_exact_bytes(y)} at {self.short} {_format_number(x)}"
            for x, y in line.points
        ]
        return PlotLine(line.points, texts, series, is_marked=True)
