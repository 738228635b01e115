"""Charts in HTML: bars, dots with whiskers, lines over an axis. They draw; they know no record.

A chart is as wide as the page and its words are text of the page's own size, on a phone too: so
only the lines are SVG, stretched, and everything that is read is HTML laid over it. Every value is
there to be read without a pointer, in the row beside a bar or in the table below a plot; a pointer,
or the arrow keys, read a plot's points one by one. `plot_svg` draws the same plot as a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from runner.render.html.elements import Node, tag, write_svg
from runner.render.html.scales import Scale, choose_scale

SERIES = 8
"""Colours and marks that tell lines apart; there are as many in plot.css."""

_FULL = 10_000
"""A plot's width and height in its own units: whole numbers are exact enough, and short."""


@dataclass(frozen=True)
class ChartMark:
    """A stretch of a bar, or a dot with its interval; `kind` is its look's name in page.css."""

    kind: str
    value: float
    text: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class ChartRow:
    """A name, its marks, the figure that is read beside them."""

    name: str
    marks: Sequence[ChartMark]
    """If there are none, the remark stands in their place and says why."""
    figure: str = "–"
    remark: str = ""
    heading: str = ""
    """Stands above this row and those that follow, up to the next heading."""


def draw_bars(rows: Sequence[ChartRow]) -> Element:
    """Draw rows of stacked bars, all on one scale from 0."""
    longest = max((sum(part.value for part in row.marks) for row in rows), default=0.0)
    return tag("div.rows", _draw_rows(rows, lambda parts: draw_bar(parts, longest)))


def draw_bar(parts: Sequence[ChartMark], longest: float, look: str = "track") -> Element:
    """Draw one stacked bar, as wide as `longest` where its parts sum to that."""
    drawn = (
        tag("i", class_=part.kind, title=part.text,
            style=f"width:{100 * part.value / (longest or 1):.2f}%")
        for part in parts
        if part.value > 0
    )  # fmt: skip
    return tag("span", drawn, class_=look)


def draw_dots(
    rows: Sequence[ChartRow], text: Callable[[float], str], scale: Scale | None = None
) -> Element:
    """Draw rows of dots with their intervals, all on one scale, whose ticks are above them."""
    if scale is None:
        dots = [dot for row in rows for dot in row.marks]
        values = [end for dot in dots for end in (dot.value, *(dot.interval or ())) if end > 0]
        scale = choose_scale(values or [1.0], text)
    grid = [tag("u.grid", style=f"left:{_to_percent(place)}%") for place, _ in scale.list_ticks()]
    ticks = tag("div.ticks", _draw_ticks(scale, "left"), aria_hidden="true")

    def draw(dots: Sequence[ChartMark]) -> Element:
        places = [scale.place(dot.value) for dot in dots]
        parts = [*grid]
        if len(places) > 1:
            parts.append(tag("b.link", style=_style_span(min(places), max(places))))
        for dot, place in zip(dots, places, strict=True):
            if dot.interval:
                whisker = _style_span(*map(scale.place, dot.interval))
                parts.append(tag(f"b.whisker.{dot.kind}", style=whisker))
            style = f"left:{_to_percent(place)}%"
            parts.append(tag(f"i.dot.{dot.kind}", style=style, title=dot.text))
        return tag("div.track.dotted", parts)

    return tag("div.rows", tag("div.row.axis", ticks), _draw_rows(rows, draw))


def _draw_rows(
    rows: Sequence[ChartRow], draw: Callable[[Sequence[ChartMark]], Element]
) -> Iterator[Element]:
    for row in rows:
        if row.heading:
            yield tag("h4", row.heading)
        yield tag(
            "div.row",
            tag("span.name", row.name),
            tag("span.figure", row.figure),
            draw(row.marks) if row.marks else tag("em.track", row.remark),
            tag("small", row.remark) if row.marks and row.remark else None,
        )


def draw_legend(kinds: Sequence[tuple[str, str]]) -> Element:
    """Draw the legend of looks, each by its names in page.css and its words."""
    return tag("p.legend", (tag("span", tag("i", class_=look), text) for look, text in kinds))


def _to_percent(place: float) -> float:
    return round(100 * min(1.0, max(0.0, place)), 2)


def _style_span(low: float, high: float) -> str:
    """Return the style of what reaches from one place to another."""
    return f"left:{_to_percent(low)}%;width:{_to_percent(high) - _to_percent(low):.2f}%"


@dataclass(frozen=True)
class PlotLine:
    """One line of a plot: points (x, y) in order of x, and the words that describe each."""

    points: Sequence[tuple[float, float]]
    texts: Sequence[str] = ()
    series: int = 0
    """Decides its colour and mark."""
    is_stairs: bool = False
    """A value holds until the next point, and what is below it is filled."""
    is_marked: bool = False
    """Each point has a mark."""
    is_joined: bool = True
    """Points that follow each other; else each stands for itself."""
    mark: str = ""
    """A character, in a file, in place of the series' own."""


@dataclass(frozen=True)
class AxisSpan:
    """A stretch of the axis that has a name."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class PointLabel:
    """One point of a plot that has words."""

    x: float
    y: float
    text: str


def draw_plot(
    lines: Sequence[PlotLine],
    x: Scale,
    y: Scale,
    *,
    summary: str,
    x_name: str,
    spans: Sequence[AxisSpan] = (),
    label: PointLabel | None = None,
) -> Element:
    """Draw lines over an axis; `summary` is what a screen reader says in their place."""
    over = [
        tag(f"span.band.band{number % 2}", span.name, title=span.name,
            style=_style_span(x.place(span.low), x.place(span.high)))
        for number, span in enumerate(spans)
    ]  # fmt: skip
    over += [
        tag(f"i.mark.m{line.series % SERIES}", style=_style_point(x.place(a), y.place(b)))
        for line in lines
        if line.is_marked
        for a, b in line.points
    ]
    if label:
        across, up = x.place(label.x), y.place(label.y)
        side = "before" if across > 0.6 else "after"
        over.append(tag(f"span.flag.{side}", tag("b", label.text), style=_style_point(across, up)))
    # What the pointer and the arrow keys read: places and words of all points, from left to right.
    points = [
        (round(_FULL * x.place(a)), round(_FULL * y.place(b)), text)
        for line in lines
        for (a, b), text in zip(line.points, line.texts, strict=False)
    ]
    points.sort(key=lambda point: point[0])
    area = tag(
        "div.area",
        tag("svg", _draw_paths(lines, x, y, _FULL, _FULL), viewBox=f"0 0 {_FULL} {_FULL}",
            preserveAspectRatio="none", aria_hidden="true"),
        over,
        role="img",
        tabindex=0,
        aria_label=summary,
        data_points=json.dumps(points, separators=(",", ":"), ensure_ascii=False),
        data_stairs=any(line.is_stairs for line in lines),
    )  # fmt: skip
    return tag(
        "div.plot",
        tag("div.ticks.y", _draw_ticks(y, "bottom"), aria_hidden="true"),
        area,
        tag("div.ticks.x", _draw_ticks(x, "left"), aria_hidden="true"),
        tag("div.axis-name", x_name),
        tag("output", aria_live="polite"),
    )


def _draw_paths(
    lines: Sequence[PlotLine], x: Scale, y: Scale, wide: int, high: int
) -> Iterator[Element]:
    """Draw the grid and the lines in an area of so many units, from its upper left corner."""
    for place, _ in x.list_ticks():
        yield tag("path.grid", d=f"M{round(wide * place)} 0V{high}")
    for place, _ in y.list_ticks():
        yield tag("path.grid", d=f"M0 {high - round(high * place)}H{wide}")
    for line in lines:
        if not line.points or not line.is_joined:
            continue
        series = f"s{line.series % SERIES}"
        places = [(round(wide * x.place(a)), high - round(high * y.place(b)))
                  for a, b in line.points]  # fmt: skip
        (first, top), *rest = places
        step = "H{}V{}" if line.is_stairs else "L{} {}"
        path = f"M{first} {top}" + "".join(step.format(*place) for place in rest)
        if line.is_stairs:  # down to the floor and back, so that there is an area to fill
            floor = high - round(high * max(0.0, y.place(0.0)))
            yield tag(f"path.fill.{series}", d=f"{path}V{floor}H{first}Z")
        yield tag(f"path.line.{series}", d=path)


def _style_point(across: float, up: float) -> str:
    return f"left:{100 * across:.2f}%;bottom:{100 * up:.2f}%"


def _draw_ticks(scale: Scale, side: str) -> list[Element]:
    return [
        tag("span", text, style=f"{side}:{_to_percent(place)}%", class_=place > 0.95 and "end")
        for place, text in scale.list_ticks()
        if -0.001 <= place <= 1.001
    ]


_WIDE, _HIGH = 800, 420
_LEFT, _TOP, _LINE = 84, 16, 20
_MARKS = "●■▲◆○□△◇"


def plot_svg(
    lines: Sequence[PlotLine],
    x: Scale,
    y: Scale,
    *,
    x_name: str,
    legend: Sequence[tuple[int, str]],
    levels: Sequence[tuple[float, str]] = (),
) -> str:
    """Draw a plot as an SVG file; `legend` names series, `levels` are heights that have a name."""

    def write(text: Node, left: float, top: float, anchor: str, look: str = "text") -> Element:
        return tag(look, text, x=round(left), y=round(top), text_anchor=anchor)

    area: list[Node] = list(_draw_paths(lines, x, y, _WIDE, _HIGH))
    area += [write(text, -8, _HIGH * (1 - place) + 4, "end") for place, text in y.list_ticks()]
    area += [write(text, _WIDE * place, _HIGH + _LINE, "middle") for place, text in x.list_ticks()]
    area.append(write(x_name, _WIDE / 2, _HIGH + 2 * _LINE + 4, "middle"))
    for value, text in levels:
        height = _HIGH * (1 - y.place(value))
        area.append(tag("path.line.level", d=f"M0 {round(height)}H{_WIDE}"))
        area.append(write(text, 6, height - 5, "start"))
    for line in lines:
        series = line.series % SERIES
        area += [
            write(line.mark or _MARKS[series], _WIDE * x.place(a), _HIGH * (1 - y.place(b)) + 5,
                  "middle", f"text.m{series}")
            for a, b in line.points
            if line.is_marked
        ]  # fmt: skip
    for row, (series, text) in enumerate(legend, start=4):
        key = tag(f"tspan.m{series % SERIES}", f"{_MARKS[series % SERIES]} ")
        area.append(tag("text", key, tag("tspan", text), x=0, y=_HIGH + row * _LINE))
    drawn = tag("g", area, transform=f"translate({_LEFT} {_TOP})")
    return write_svg([drawn], _LEFT + _WIDE + 32, _TOP + _HIGH + (len(legend) + 4) * _LINE)
