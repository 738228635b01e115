"""Charts in HTML: bars, dots with whiskers, lines over an axis. They draw; they know no record.

A chart is as wide as the page and its words are text of the page's own size, on a phone too: so
only the lines are SVG, stretched, and everything that is read is HTML laid over it. Every value is
there to be read without a pointer, in the row beside a bar or in the table below a plot; a pointer,
or the arrow keys, read a plot's points one by one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from xml.etree.ElementTree import Element

from runner.report.markup import Node, tag

FULL = 10_000
"""A plot's width and height in its own units: whole numbers are exact enough, and short."""

SERIES = 8
"""Colours and marks that tell lines apart; there are as many in page.css."""


# Scales: from a value to a place between 0 and 1.


class Scale(Protocol):
    def place(self, value: float) -> float: ...

    def ticks(self) -> list[tuple[float, str]]:
        """Places, and what is written there."""
        ...


@dataclass(frozen=True)
class Linear:
    """From `low` to `high`."""

    low: float
    high: float
    text: Callable[[float], str]

    def place(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    def ticks(self) -> list[tuple[float, str]]:
        unit = _round_unit((self.high - self.low) / 5)
        if unit == 0:
            return [(0.5, short(self.text(self.low)))]
        while True:
            first = math.ceil(self.low / unit - 1e-9)
            last = math.floor(self.high / unit + 1e-9)
            values = [number * unit for number in range(first, last + 1)]
            found = {short(self.text(value)): self.place(value) for value in values}
            if len(found) == len(values):
                return [(place, text) for text, place in found.items()]
            unit *= 2  # a byte has no halves: two ticks would say the same


@dataclass(frozen=True)
class Log:
    """The same for what is above 0 and spans decades, all else being at its low end; ticks at 1, 2,
    5, 10, or fewer."""

    low: float
    high: float
    text: Callable[[float], str]

    def place(self, value: float) -> float:
        if value <= 0:
            return 0.0
        span = math.log(self.high / self.low)
        return math.log(value / self.low) / span if span else 0.5

    def ticks(self) -> list[tuple[float, str]]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for digits in ((1, 2, 5), (1, 3), (1,)):
            values = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
            inside = [value for value in values if self.low <= value <= self.high]
            if len(inside) <= 7:
                break
        thin = math.ceil(len(inside) / 7)
        return [(self.place(value), short(self.text(value))) for value in inside[::thin]]


@dataclass(frozen=True)
class At:
    """Another scale, with its ticks at given values: the sizes that were swept, say."""

    scale: Scale
    values: Sequence[float]
    text: Callable[[float], str]

    def place(self, value: float) -> float:
        return self.scale.place(value)

    def ticks(self) -> list[tuple[float, str]]:
        return [(self.place(value), self.text(value)) for value in self.values]


@dataclass(frozen=True)
class Bent:
    """A scale in straight pieces: (value, place) at each joint, in order. Ticks are at the joints
    that have room for one."""

    joints: Sequence[tuple[float, float]]
    text: Callable[[float], str]

    def place(self, value: float) -> float:
        (before, low), *rest = self.joints
        for after, high in rest:
            if value <= after:
                share = (value - before) / (after - before) if after > before else 1.0
                return low + max(0.0, share) * (high - low)
            before, low = after, high
        return low

    def ticks(self) -> list[tuple[float, str]]:
        found: list[tuple[float, str]] = []
        for value, place in self.joints:
            if not found or place - found[-1][0] >= 0.1:
                found.append((place, short(self.text(value))))
        return found


def from_zero(values: Sequence[float], text: Callable[[float], str]) -> Linear:
    """From 0 to a little above the highest. Of nothing but zeros to so little that its one tick
    is 0."""
    return Linear(0.0, 1.06 * max(values, default=0.0) or 1e-9, text)


def fitting(values: Sequence[float], text: Callable[[float], str]) -> Scale:
    """Logarithmic where the values span almost a decade or more, or else linear from 0."""
    low, high = min(values), max(values)
    if low > 0 and high / low >= 8:
        return Log(low / 1.3, high * 1.3, text)
    return from_zero(values, text)


def short(text: str) -> str:
    """A round number as a tick has it: `2.00 MB` is `2 MB`, `0 B` is `0`."""
    text = re.sub(r"(\.\d*?)0+(?=\D|$)", r"\1", text)
    text = re.sub(r"\.(?=\D|$)", "", text)
    return "0" if re.fullmatch(r"0 \D+", text) else text


def _round_unit(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... from `least` on."""
    if least <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(least) + 1e-9)
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-9))


# Bars: a row each, as text with a bar in it.


@dataclass(frozen=True)
class Part:
    """A stretch of a bar. `kind` is its colour's name in page.css."""

    kind: str
    value: float
    text: str


@dataclass(frozen=True)
class Bar:
    name: str
    parts: Sequence[Part]
    figure: str
    """What is read beside it."""
    remark: str = ""
    missing: bool = False
    """There is no figure: the remark says why, in the place of a bar."""
    heading: str = ""
    """Stands above this row and those that follow, up to the next heading."""


def bars(rows: Sequence[Bar]) -> Element:
    """Rows of stacked bars, all on one scale from 0."""
    longest = max((sum(part.value for part in row.parts) for row in rows), default=0.0) or 1.0
    return _rows(rows, lambda row: _track(row, longest))


def _track(row: Bar, longest: float) -> Element:
    return tag(
        "div",
        (
            tag("i", class_=part.kind, style=_width(part.value / longest), title=part.text)
            for part in row.parts
            if part.value > 0
        ),
        class_="track",
    )


def _width(share: float) -> str:
    return f"width:{100 * share:.2f}%"


def legend(kinds: Sequence[tuple[str, str]]) -> Element:
    """What each colour means: (its name in page.css, words)."""
    return tag(
        "p",
        (tag("span", tag("i", class_=f"key {kind}"), text) for kind, text in kinds),
        class_="legend",
    )


# Dots with whiskers: a row each.


@dataclass(frozen=True)
class Dot:
    kind: str
    value: float
    text: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Dots:
    name: str
    dots: Sequence[Dot]
    figure: str
    remark: str = ""
    missing: bool = False
    heading: str = ""


def dots(rows: Sequence[Dots], text: Callable[[float], str]) -> Element:
    """Rows of dots with their intervals, all on one scale, whose ticks are above them."""
    values = [
        value
        for row in rows
        for dot in row.dots
        for value in (dot.value, *(dot.interval or ()))
        if value > 0
    ]
    scale = fitting(values or [1.0], text)
    ticks = tag(
        "div",
        tag("div", _tick_marks(scale, "left"), class_="ticks", aria_hidden="true"),
        class_="row axis",
    )
    return _rows(rows, lambda row: _dotted(row, scale), ticks)


def _dotted(row: Dots, scale: Scale) -> Element:
    places = [_percent(scale.place(dot.value)) for dot in row.dots]
    parts: list[Node] = [
        tag("u", style=f"left:{_percent(place)}%", class_="grid") for place, _ in scale.ticks()
    ]
    if len(places) > 1:
        left, right = min(places), max(places)
        parts.append(tag("b", class_="link", style=f"left:{left}%;width:{right - left:.2f}%"))
    for dot, place in zip(row.dots, places, strict=True):
        if dot.interval:
            low, high = (_percent(scale.place(end)) for end in dot.interval)
            style = f"left:{low}%;width:{high - low:.2f}%"
            parts.append(tag("b", class_=f"whisker {dot.kind}", style=style))
        parts.append(tag("i", class_=f"dot {dot.kind}", style=f"left:{place}%", title=dot.text))
    return tag("div", parts, class_="track dotted")


def _percent(place: float) -> float:
    return round(100 * min(1.0, max(0.0, place)), 2)


def _rows(
    rows: Sequence[Bar] | Sequence[Dots], draw: Callable[..., Element], *above: Element
) -> Element:
    drawn: list[Node] = list(above)
    for row in rows:
        if row.heading:
            drawn.append(tag("h4", row.heading))
        drawn.append(
            tag(
                "div",
                tag("span", row.name, class_="name"),
                tag("span", row.figure, class_="figure"),
                tag("em", row.remark, class_="track") if row.missing else draw(row),
                None if row.missing or not row.remark else tag("small", row.remark),
                class_="row",
            )
        )
    return tag("div", drawn, class_="rows")


# Lines over an axis.


@dataclass(frozen=True)
class Line:
    """One line of a plot: points (x, y) in order of x, and what each says to who reads it out."""

    points: Sequence[tuple[float, float]]
    texts: Sequence[str]
    series: int = 0
    """Decides its colour and mark."""
    stairs: bool = False
    """A value holds until the next point, and what is below it is filled."""
    marked: bool = False
    """Each point has a mark."""
    joined: bool = True
    """Points that follow each other; else each stands for itself."""


@dataclass(frozen=True)
class Band:
    """A stretch of the axis that has a name."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Flag:
    """One point of a plot that has words."""

    x: float
    y: float
    text: str


def plot(
    lines: Sequence[Line],
    x: Scale,
    y: Scale,
    *,
    summary: str,
    x_name: str,
    bands: Sequence[Band] = (),
    flag: Flag | None = None,
) -> Element:
    """`summary` is what a screen reader says in its place."""
    ground = [_svg_line("V", place) for place, _ in x.ticks()]
    ground += [_svg_line("H", place) for place, _ in y.ticks()]
    drawn = [path for line in lines for path in _paths(line, x, y)]
    over: list[Node] = [
        tag("span", band.name, class_=f"band band{number % 2}", title=band.name,
            style=f"left:{100 * x.place(band.low):.2f}%;"
            f"width:{100 * (x.place(band.high) - x.place(band.low)):.2f}%")
        for number, band in enumerate(bands)
    ]  # fmt: skip
    over += [
        tag("i", class_=f"mark m{line.series % SERIES}", style=_at(x.place(a), y.place(b)))
        for line in lines
        if line.marked
        for a, b in line.points
    ]
    if flag:
        over.append(_flag(flag, x, y))
    area = tag(
        "div",
        tag(
            "svg", ground, drawn,
            viewBox=f"0 0 {FULL} {FULL}", preserveAspectRatio="none", aria_hidden="true",
        ),
        over,
        class_="area",
        role="img",
        tabindex=0,
        aria_label=summary,
        data_points=_points(lines, x, y),
        data_stairs=any(line.stairs for line in lines),
    )  # fmt: skip
    return tag(
        "div",
        tag("div", _tick_marks(y, "bottom"), class_="ticks y", aria_hidden="true"),
        area,
        tag("div", _tick_marks(x, "left"), class_="ticks x", aria_hidden="true"),
        tag("div", x_name, class_="axis-name"),
        tag("output", aria_live="polite"),
        class_="plot",
    )


def _at(across: float, up: float) -> str:
    return f"left:{100 * across:.2f}%;bottom:{100 * up:.2f}%"


def _units(place: float) -> int:
    return round(FULL * place)


def _svg_line(direction: str, place: float) -> Element:
    at = _units(place)
    path = f"M{at} 0V{FULL}" if direction == "V" else f"M0 {FULL - at}H{FULL}"
    return tag("path", d=path, class_="grid")


def _paths(line: Line, x: Scale, y: Scale) -> list[Element]:
    if not line.points or not line.joined:
        return []
    places = [(_units(x.place(a)), FULL - _units(y.place(b))) for a, b in line.points]
    (first, top), *rest = places
    if line.stairs:
        path = f"M{first} {top}" + "".join(f"H{across}V{down}" for across, down in rest)
        floor = FULL - _units(max(0.0, y.place(0.0)))
        closed = f"{path}V{floor}H{first}Z"
        return [
            tag("path", d=closed, class_=f"fill s{line.series % SERIES}"),
            tag("path", d=path, class_=f"line s{line.series % SERIES}"),
        ]
    path = f"M{first} {top}" + "".join(f"L{across} {down}" for across, down in rest)
    return [tag("path", d=path, class_=f"line s{line.series % SERIES}")]


def _flag(flag: Flag, x: Scale, y: Scale) -> Element:
    across, up = x.place(flag.x), y.place(flag.y)
    side = "before" if across > 0.6 else "after"
    return tag("span", tag("b", flag.text), class_=f"flag {side}", style=_at(across, up))


def _points(lines: Sequence[Line], x: Scale, y: Scale) -> str:
    """For the pointer and the arrow keys: places, and the words of each point."""
    found = [
        (_units(x.place(a)), _units(y.place(b)), text)
        for line in lines
        for (a, b), text in zip(line.points, line.texts, strict=True)
    ]
    found.sort(key=lambda point: point[0])
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def _tick_marks(scale: Scale, side: str) -> list[Element]:
    return [
        tag(
            "span", text, style=f"{side}:{_percent(place)}%", class_="end" if place > 0.95 else None
        )
        for place, text in scale.ticks()
        if -0.001 <= place <= 1.001
    ]
