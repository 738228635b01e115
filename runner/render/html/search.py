"""A search's cells over what it looked for, those on the front marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate

from runner.analysis.objective import Objective
from runner.analysis.selection import CellGrid, shorten_field
from runner.metrics import METRICS, format_metric
from runner.records import Record
from runner.render.html.charts import PlotLine, draw_legend, draw_plot
from runner.render.html.elements import Node, tag
from runner.render.html.scales import LinearScale, choose_scale
from runner.render.html.tables import draw_table
from runner.render.tables import Column, make_metric_column, make_table
from runner.render.words import count_things, format_exactly

_FRONT, _OTHERS = 0, 7
"""The series of a plot that give each kind its colour and mark."""


class SearchSection:
    """A search's cells, as far as they have the figures that it was for."""

    def __init__(self, grid: CellGrid, objective: Objective) -> None:
        self._grid = grid
        self._objective = objective
        self._front = objective.find_front(grid.records)
        self._known = [
            record for record in grid.records if objective.get_values(record) is not None
        ]

    def write_sentence(self) -> str:
        cells = count_things(len(self._grid.records), "cell was", "cells were")
        if not self._front:
            best_words = "none has it"
        elif len(self._objective.metrics) == 1:
            best = self._front[0]
            best_words = f"{self._write_figures(best)} is the best: {self._grid.label(best)}"
        else:
            best_words = f"{count_things(len(self._front), 'cell is', 'cells are')} the front"
        return f"Searched for {self._objective.words}: {cells} measured, and {best_words}."

    def draw(self) -> Iterator[Node]:
        """Draw the chart; what is not in it, and why; the front as a table."""
        if self._known:
            yield from self._draw_front() if len(self._objective.metrics) > 1 else self._draw_best()
        reasons = Counter(filter(None, map(self._objective.explain_exclusion, self._grid.records)))
        if reasons:
            words = [f"{count_things(count, 'cell')} {why}" for why, count in reasons.most_common()]
            yield tag("p.note", f"Not in the chart: {'; '.join(words)}.")
        if self._front:
            fields = [
                Column[Record](shorten_field(name), partial(self._grid.word, name=name), name)
                for name in self._grid.varied
            ]
            table = make_table(
                [*fields, *map(make_metric_column, self._objective.names)], self._front
            )
            label = "the front" if len(self._front) > 1 else "the best cell"
            yield draw_table(table, label, is_sortable=True)

    def _draw_front(self) -> Iterator[Node]:
        """Draw the first two metrics against each other."""
        first, second, *more = self._objective.metrics
        others = [record for record in self._known if record not in self._front]

        def draw_cells(cells: Sequence[Record], series: int, is_joined: bool) -> PlotLine:
            ordered = sorted(cells, key=lambda record: _read_value(record, first))
            points = [
                (_read_value(record, first), _read_value(record, second)) for record in ordered
            ]
            texts = [
                f"{self._grid.label(record)}: {self._write_figures(record)}" for record in ordered
            ]
            return PlotLine(points, texts, series, is_marked=True, is_joined=is_joined)

        yield draw_legend([(f"mark m{_FRONT}", "the front"), (f"mark m{_OTHERS}", "other cells")])
        xs, ys = (
            choose_scale(
                [_read_value(record, name) for record in self._known], METRICS[name].format
            )
            for name in (first, second)
        )
        yield draw_plot(
            [draw_cells(self._front, _FRONT, not more), draw_cells(others, _OTHERS, False)],
            xs,
            ys,
            summary=f"{METRICS[second].label} against {METRICS[first].label}: "
            f"{count_things(len(self._front), 'cell')} on the front, {len(others)} beside it; the "
            "table below has the front.",
            x_name=f"{first}; upwards {second}",
        )

    def _draw_best(self) -> Iterator[Node]:
        """Draw cells in the order in which they were asked for, over the best so far."""
        (name,) = self._objective.metrics
        values = [_read_value(record, name) for record in self._known]
        order = [1.0 + self._grid.records.index(record) for record in self._known]
        best = accumulate(values, min if METRICS[name].smaller_is_better else max)
        texts = [
            f"{self._grid.label(record)}: {format_exactly(name, value)}"
            for record, value in zip(self._known, values, strict=True)
        ]
        cells = list(zip(order, values, strict=True))
        yield draw_plot(
            [
                PlotLine(list(zip(order, best, strict=True)), series=_FRONT),
                PlotLine(cells, texts, _OTHERS, is_marked=True, is_joined=False),
            ],
            LinearScale(0.0, 1.0 + max(order), "{:.0f}".format),
            choose_scale(values, METRICS[name].format),
            summary=f"{METRICS[name].label} of each cell in the order in which it was asked for, "
            "and the best so far.",
            x_name="cells, in the order in which they were asked for; the line is the best so far",
        )

    def _write_figures(self, record: Record) -> str:
        names = self._objective.names
        return ", ".join(format_metric(name, record.metrics[name]) for name in names)


def _read_value(record: Record, name: str) -> float:
    return float(record.metrics[name] or 0)
