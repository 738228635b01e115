"""What a search came to: its cells over what it looked for, those on the front marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from runner.judging.objective import Objective
from runner.judging.selection import Grid, short
from runner.metrics import METRICS, readable
from runner.records import Record
from runner.report.charts import Line, Linear, fitting, plot
from runner.report.markup import Node, tag
from runner.report.tables import Cell, Head, exactly, metric_cell, metric_head, table

_FRONT, _OTHERS = 0, 7
"""Of the charts' series, for colour and mark."""


class Searched:
    """A search's cells, as far as they have the figures that it was for."""

    def __init__(self, grid: Grid, objective: Objective) -> None:
        self._grid = grid
        self._objective = objective
        self._front = objective.front(grid.records)
        self._shown = [each for each in grid.records if objective.values(each) is not None]

    def sentence(self) -> str:
        cells = f"{len(self._grid.records)} cells were measured"
        if not self._front:
            return f"Searched for {self._objective.words}: {cells}, and none has it."
        if len(self._objective.metrics) == 1:
            return (
                f"Searched for {self._objective.words}: {cells}, and "
                f"{self._figures(self._front[0])} is the best: "
                f"{self._grid.label(self._front[0])}."
            )
        many = "1 cell is" if len(self._front) == 1 else f"{len(self._front)} cells are"
        return f"Searched for {self._objective.words}: {cells}, and {many} the front."

    def content(self) -> Iterator[Node]:
        """The chart; what is not in it, and why; the front as a table."""
        if self._shown:
            many = len(self._objective.metrics)
            yield from self._against_each_other() if many > 1 else self._one_after_another()
        why = Counter(filter(None, map(self._objective.why_not, self._grid.records)))
        if why:
            said = "; ".join(
                f"{'1 cell' if count == 1 else f'{count} cells'} {reason}"
                for reason, count in why.most_common()
            )
            yield tag("p", f"Not in the chart: {said}.", class_="note")
        if self._front:
            names = self._objective.names
            head = [*(Head(short(each), each) for each in self._grid.varied)]
            rows = [
                [
                    *(Cell(self._grid.word(each, name)) for name in self._grid.varied),
                    *(metric_cell(each, name) for name in names),
                ]
                for each in self._front
            ]
            label = "the front" if len(self._front) > 1 else "the best cell"
            yield table([*head, *map(metric_head, names)], rows, sortable=True, label=label)

    def _against_each_other(self) -> Iterator[Node]:
        first, second = self._objective.metrics[:2]
        others = [each for each in self._shown if each not in self._front]
        yield tag(
            "p",
            *(tag("span", tag("i", class_=f"mark m{series}"), text, class_="marked")
              for series, text in ((_FRONT, "the front"), (_OTHERS, "other cells"))),
            class_="legend",
        )  # fmt: skip
        xs, ys = (
            fitting(
                [float(each.metrics[name] or 0) for each in self._shown], partial(readable, name)
            )
            for name in (first, second)
        )
        yield plot(
            [
                self._line(self._front, _FRONT, joined=len(self._objective.metrics) == 2),
                self._line(others, _OTHERS, joined=False),
            ],
            xs,
            ys,
            summary=f"{METRICS[second].label} against {METRICS[first].label}: "
            f"{len(self._front)} cells on the front, {len(others)} others; the table below has "
            "the front.",
            x_name=f"{first}; upwards {second}",
        )

    def _line(self, cells: Sequence[Record], series: int, joined: bool) -> Line:
        first, second = self._objective.metrics[:2]
        ordered = sorted(cells, key=lambda each: each.metrics[first] or 0)
        points = [
            (float(each.metrics[first] or 0), float(each.metrics[second] or 0)) for each in ordered
        ]
        texts = [f"{self._grid.label(each)}: {self._figures(each)}" for each in ordered]
        return Line(points, texts, series, marked=True, joined=joined)

    def _one_after_another(self) -> Iterator[Node]:
        """In the order in which they were asked for, over the best so far."""
        (name,) = self._objective.metrics
        values = [float(each.metrics[name] or 0) for each in self._shown]
        asked = [1.0 + self._grid.records.index(each) for each in self._shown]
        better = min if METRICS[name].smaller_is_better else max
        best = [better(values[: place + 1]) for place in range(len(values))]
        texts = [
            f"{self._grid.label(each)}: {exactly(name, value)}"
            for each, value in zip(self._shown, values, strict=True)
        ]
        yield plot(
            [
                Line(list(zip(asked, best, strict=True)), [""] * len(best), _FRONT),
                Line(list(zip(asked, values, strict=True)), texts, _OTHERS, marked=True,
                     joined=False),
            ],
            Linear(0.0, 1.0 + max(asked), lambda value: f"{value:.0f}"),
            fitting(values, partial(readable, name)),
            summary=f"{METRICS[name].label} of each cell in the order in which it was asked for, "
            "and the best so far.",
            x_name="cells, in the order in which they were asked for; the line is the best so far",
        )  # fmt: skip

    def _figures(self, record: Record) -> str:
        return ", ".join(readable(name, record.metrics[name]) for name in self._objective.names)
