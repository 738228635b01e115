"""Peak memory along a number that was swept: its lines, their laws, and the words for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from runner.judging import selection
from runner.judging.law import Law, law
from runner.judging.selection import Grid, Series
from runner.judging.tolerance import tolerance
from runner.metrics import METRICS, readable_bytes
from runner.report.charts import SERIES, At, Line, Scale, fitting, plot
from runner.report.markup import Node, tag
from runner.report.tables import Cell, Head, exact_bytes, table

MOST_LINES = 24
"""Of a plot; the table below it has them all."""

_PEAK = "tensor_peak_bytes"


@dataclass(frozen=True)
class Track:
    """Cells that differ in the one number alone; what is known of their peaks."""

    name: str
    series: Series

    @cached_property
    def points(self) -> list[tuple[float, int]]:
        return [
            (x, int(value))
            for x, record in self.series.points
            if (value := record.metrics.get(_PEAK)) is not None
        ]

    @cached_property
    def law(self) -> Law | None:
        return law(self.points, tolerance(METRICS[_PEAK]))

    @property
    def lost(self) -> str:
        """Where there is no peak, and why."""
        return "; ".join(
            f"{record.outcome.words} at {number(x)}"
            for x, record in self.series.points
            if record.metrics.get(_PEAK) is None
        )


class Along:
    """All tracks along one axis, in their order."""

    def __init__(self, grid: Grid, axis: str) -> None:
        self.axis = axis
        self.short = selection.short(axis)
        self._each = [Track(series.name, series) for series in grid.series(axis)]
        self.tracks = _alike(self._each)
        self.drawn = [track for track in self.tracks if len(track.points) > 1][:MOST_LINES]

    def sentence(self) -> str:
        """What peak memory does along the axis, in as few words as that takes."""
        found: dict[str, list[str]] = {}
        for track in self._each:
            if track.law:
                found.setdefault(track.law.words(self.short), []).append(track.name)
        if not found:
            return ""
        if len(found) == 1:
            ((words, names),) = found.items()
            return f"Peak memory is {words}{_where(len(names), len(self._each))}."
        said = [
            f"{words} for {names[0] if len(names) == 1 else f'{len(names)} groups of cells'}"
            for words, names in sorted(found.items(), key=lambda item: -len(item[1]))
        ]
        return f"Peak memory against {self.short}: {'; '.join(said)}."

    def scales(self) -> tuple[Scale, Scale]:
        points = [point for track in self.drawn for point in track.points]
        xs = sorted({x for x, _ in points})
        return At(fitting(xs, number), xs, number), fitting([y for _, y in points], readable_bytes)

    def content(self) -> Iterator[Node]:
        """The plot, and under it a row a line with its law."""
        if self.drawn:
            yield plot(
                [self._line(index, track) for index, track in enumerate(self.drawn)],
                *self.scales(),
                summary=f"Peak tensor memory against {self.axis}, {len(self.drawn)} lines; the "
                "table below has the figures.",
                x_name=self.axis,
            )
        head = [
            *(Head("cells"), Head("peak memory is")),
            Head("exponent", "the slope of log bytes against log size: 0 flat, 1 linear, 2 a "
                 "square; a constant part makes it smaller", figure=True),
            *(Head("law"), Head("from, to", figure=True), Head("without a peak")),
        ]  # fmt: skip
        rows = [self._row(track) for track in self.tracks]
        yield table(head, rows, label=f"laws of peak memory against {self.axis}")

    def _line(self, index: int, track: Track) -> Line:
        texts = [
            f"{track.name}: {exact_bytes(y)} at {self.short} {number(x)}" for x, y in track.points
        ]
        return Line(track.points, texts, index, marked=True)

    def _row(self, track: Track) -> list[Cell]:
        found, points = track.law, track.points
        mark = None
        if track in self.drawn:
            mark = tag("i", class_=f"mark m{self.drawn.index(track) % SERIES}")
        exponent = found.exponent if found else None
        formula = ""
        if found and found.polynomial:
            formula = f"{found.formula(self.short)} ({'to the byte' if found.exact else 'about'})"
        ends = ""
        if points:
            ends = f"{readable_bytes(points[0][1])} to {readable_bytes(points[-1][1])}"
        return [
            Cell(tag("span", mark, track.name, class_="marked")),
            Cell(found.words(self.short) if found else "too few sizes to tell"),
            Cell("" if exponent is None else f"{exponent:.2f}", value=exponent, figure=True),
            Cell(formula),
            Cell(ends, figure=True),
            Cell(track.lost),
        ]


def _alike(tracks: Sequence[Track]) -> list[Track]:
    """Lines that lie on each other, to the byte, are one with several names."""
    found: dict[tuple[object, ...], list[Track]] = {}
    for track in tracks:
        # What has lost a point is like nothing else, and keeps its own reason.
        whole = len(track.points) == len(track.series.points)
        found.setdefault(tuple(track.points) if whole else (track.name,), []).append(track)
    return [
        Track("; ".join(track.name for track in same), same[0].series) for same in found.values()
    ]


def _where(told: int, all_of_them: int) -> str:
    """In how many groups of cells, if there are several."""
    if told < all_of_them:
        return f" in {told} of {all_of_them} groups of cells"
    return {1: "", 2: " in both groups of cells"}.get(told, f" in all {told} groups of cells")


def number(value: float) -> str:
    return f"{value:,.6g}"
