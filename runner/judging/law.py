"""How memory follows a number that was swept: flat, linear, a power. Pure functions.

Three sizes are the fewest that tell. A polynomial is recognised exactly, by divided differences of
whole numbers, where there is at least one point more than it has coefficients: `bytes = a + b·x` is
then true to the byte at every size, however large `a` is. That matters, since the slope of log
bytes against log x, the exponent that is given as well, lies below the true one for as long as a
constant part is felt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise

from runner.metrics import readable_bytes

FEWEST_SIZES = 3
SAME_SHARE, SAME_BYTES = 0.005, 256
"""What differs by less is the same, as in `compare`."""

_STEADY = 0.25
"""A power has one exponent: between neighbours it may lie this far from that of all."""

Point = tuple[float, float]


class Shape(StrEnum):
    FLAT = "flat"
    LINEAR = "linear"
    QUADRATIC = "quadratic"
    POWER = "power"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Law:
    """What is known of bytes as a function of x."""

    shape: Shape
    exponent: float | None
    """The slope of log bytes against log x, by least squares; `None` where one is not above 0."""
    polynomial: tuple[Fraction, ...]
    """The constant first. Empty where none fits."""
    exact: bool
    """Whether it holds at every point to the byte."""
    local: tuple[float, float] | None = None
    """The lowest and the highest exponent between neighbours."""

    def words(self, axis: str) -> str:
        """`flat`, `linear in iterations`, `iterations^1.6`."""
        if self.shape is Shape.FLAT:
            return "flat"
        if self.shape is Shape.POWER:
            return f"{axis}^{self.exponent:.2g}"
        if self.shape is Shape.UNCLEAR:
            if self.local is None:
                return "no clear law"
            return f"no single power: {axis}^{self.local[0]:.2g} to {axis}^{self.local[1]:.2g}"
        if self.polynomial[-1] < 0:
            return f"falls, {self.shape} in {axis}"
        return f"{self.shape} in {axis}"

    def formula(self, axis: str) -> str:
        """`91.2 kB + 12.8 kB · iterations`; nothing where no polynomial is known."""
        text = ""
        for degree, coefficient in enumerate(self.polynomial):
            if coefficient == 0:
                continue
            sign = " - " if coefficient < 0 else " + "
            power = ("", f" · {axis}", f" · {axis}²")[degree]
            text += (sign if text else sign.strip(" +")) + _amount(abs(coefficient)) + power
        return text


def law(points: Iterable[Point]) -> Law | None:
    """The law that the points (x, bytes) follow; `None` for fewer than three sizes."""
    ordered = sorted(dict(points).items())
    if len(ordered) < FEWEST_SIZES:
        return None
    xs, ys = zip(*ordered, strict=True)
    local = exponent = None
    if min(xs) > 0 and min(ys) > 0:
        logs = [(math.log(x), math.log(y)) for x, y in ordered]
        slopes = [(d - b) / (c - a) for (a, b), (c, d) in pairwise(logs)]
        local = min(slopes), max(slopes)
        exponent = float(_line(logs)[1])
    if max(ys) - min(ys) <= max(SAME_BYTES, SAME_SHARE * max(ys)):
        return Law(Shape.FLAT, exponent, (Fraction(max(ys)),), max(ys) == min(ys), local)
    polynomial = _polynomial(ordered)
    if polynomial:
        shape = Shape.LINEAR if len(polynomial) == 2 else Shape.QUADRATIC
        return Law(shape, exponent, polynomial, True, local)
    near = _line(ordered, relative=True)
    if all(abs(near[0] + near[1] * Fraction(x) - Fraction(y)) <= _tolerance(y) for x, y in ordered):
        return Law(Shape.LINEAR, exponent, near, False, local)
    if local and exponent is not None and max(abs(s - exponent) for s in local) <= _STEADY:
        return Law(Shape.POWER, exponent, (), False, local)
    return Law(Shape.UNCLEAR, exponent, (), False, local)


def _polynomial(points: Sequence[Point]) -> tuple[Fraction, ...]:
    """Of degree 1 or 2 through every point exactly, by Newton's divided differences."""
    xs = [Fraction(x) for x, _ in points]
    column = [Fraction(y) for _, y in points]
    leading: list[Fraction] = []
    for order in range(1, len(points) + 1):
        if not any(column):
            break
        leading.append(column[0])
        column = [
            (after - before) / (xs[i + order] - xs[i])
            for i, (before, after) in enumerate(pairwise(column))
        ]
    # As many coefficients as points always fit, and so say nothing.
    if len(leading) == 2 and len(points) >= 3:
        return leading[0] - leading[1] * xs[0], leading[1]
    if len(leading) == 3 and len(points) >= 4:
        a, b, c = leading
        return a - b * xs[0] + c * xs[0] * xs[1], b - c * (xs[0] + xs[1]), c
    return ()


def _line(points: Sequence[Point], *, relative: bool = False) -> tuple[Fraction, Fraction]:
    """Least squares: constant and slope. `relative`: of the error as a share of y, so that the
    small sizes count as much as the large."""
    rows = [
        (Fraction(x), Fraction(y), 1 / Fraction(y) ** 2 if relative and y else Fraction(1))
        for x, y in points
    ]
    total = _sum(w for _, _, w in rows)
    mean_x = _sum(w * x for x, _, w in rows) / total
    mean_y = _sum(w * y for _, y, w in rows) / total
    products = _sum(w * (x - mean_x) * (y - mean_y) for x, y, w in rows)
    slope = products / _sum(w * (x - mean_x) ** 2 for x, _, w in rows)
    return mean_y - slope * mean_x, slope


def _sum(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


def _tolerance(value: float) -> float:
    return max(SAME_BYTES, SAME_SHARE * value)


def _amount(value: Fraction) -> str:
    return readable_bytes(float(value)) if value >= 1 or value == 0 else f"{float(value):.3g} B"
