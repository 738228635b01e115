"""How a figure follows a size that was varied: flat, linear, exponential. The one law of growth:
the verdicts of claims, the report of a sweep and the model of a fit all have it from here.

Core: standard library only. Each law but `flat` is a straight line, of something against something:

    linear        the figure against the size
    quadratic     the figure against the size's square; or, from four sizes on, a parabola
    exponential   the figure's logarithm against the size
    power         the figure's logarithm against the size's logarithm

The first that holds is the law; one that holds to the byte goes before those that hold about. It
holds about where no point is further from the line than what counts as the same (`tolerance`), or
than `STRAIGHT` of the whole rise. With a constant part, `bytes = a + b·x`, the slope of log bytes
against log x lies below the true exponent for as long as the constant is felt: that exponent is
given as well, and never decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from runner.analysis.tolerance import Tolerance
from runner.metrics import format_bytes

FEWEST_SIZES = 3
"""Two points lie on any line."""

STRAIGHT = 0.01
"""Of the whole rise a point may be that far from a line. At the sizes 25, 50 and 100 the power 1.05
passes for one, and 1.1 does not."""

Point = tuple[float, float]


class Shape(StrEnum):
    FLAT = "flat"
    LINEAR = "linear"
    QUADRATIC = "quadratic"
    EXPONENTIAL = "exponential"
    POWER = "power"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Law:
    """A figure as a function of x, as far as it is known."""

    shape: Shape
    polynomial: tuple[Fraction, ...]
    """The constant first. Empty where none holds."""
    exact: bool
    """The polynomial holds at every point to the byte."""
    rises: bool
    """Each size has more than the one before it, by more than counts as the same."""
    falls: bool
    """The largest size has less than the smallest."""
    exponent: float | None
    """The slope of log y against log x, by least squares; `None` where one is not above 0."""
    local: tuple[float, float] | None
    """The lowest and the highest exponent between neighbours."""

    def describe(self, axis: str) -> str:
        """Return the law in words: `flat`, `linear in iterations`, `iterations^1.6`."""
        if self.shape is Shape.FLAT:
            return "flat"
        if self.shape is Shape.POWER:
            return f"{axis}^{self.exponent:.2g}"
        if self.shape is Shape.UNCLEAR:
            if self.local is None:
                return "no clear law"
            return f"no single power: {axis}^{self.local[0]:.2g} to {axis}^{self.local[1]:.2g}"
        return f"{'falls, ' if self.falls else ''}{self.shape} in {axis}"

    def write_formula(self, axis: str) -> str:
        """Return `91.2 kB + 12.8 kB · iterations`; empty where no polynomial is known."""
        text = ""
        for degree, coefficient in enumerate(self.polynomial):
            if coefficient == 0:
                continue
            sign, size = " - " if coefficient < 0 else " + ", float(abs(coefficient))
            amount = format_bytes(size) if size >= 1 else f"{size:.3g} B"
            power = ("", f" · {axis}", f" · {axis}²")[degree]
            text += (sign if text else sign.strip(" +")) + amount + power
        return text


def find_law(points: Iterable[Point], tolerance: Tolerance) -> Law | None:
    """Return the law that the points (x, y) follow; None for fewer than three sizes."""
    ordered = sorted(dict(points).items())
    if len(ordered) < FEWEST_SIZES:
        return None
    figures = [y for _, y in ordered]
    lines = [line for line in _list_lines(ordered, tolerance) if len(ordered) > len(line.powers)]
    holding = [line for line in lines if line.exact] or [line for line in lines if line.holds]
    shape, polynomial, exact = Shape.UNCLEAR, tuple[Fraction, ...](), False
    if tolerance.same(figures):
        shape, polynomial = Shape.FLAT, (Fraction(max(figures)),)
        exact = max(figures) == min(figures)
    elif holding:
        shape, polynomial, exact = holding[0].shape, holding[0].polynomial, holding[0].exact
    exponent = local = None
    if min(ordered)[0] > 0 and min(figures) > 0:
        power = next(line for line in lines if line.shape is Shape.POWER)
        slopes = [
            (later - y) / (after - x)
            for (x, after), (y, later) in zip(pairwise(power.xs), pairwise(power.ys), strict=True)
        ]
        exponent, local = float(power.terms[1]), (float(min(slopes)), float(max(slopes)))
    return Law(
        shape,
        polynomial,
        exact,
        rises=all(later - y > tolerance.at(y, later) for y, later in pairwise(figures)),
        falls=figures[-1] < figures[0],
        exponent=exponent,
        local=local,
    )


@dataclass(frozen=True)
class _Line:
    """The nearest one: of the terms `x ** power`, by least squares."""

    shape: Shape
    powers: tuple[int, ...]
    xs: Sequence[Fraction]
    ys: Sequence[Fraction]
    allowed: Sequence[float]
    of_logs: bool = False

    @cached_property
    def terms(self) -> list[Fraction]:
        """Return a factor for each of the powers.

        The error counts as a share of the figure, so that small sizes count as much as large ones;
        a logarithm's error is one already.
        """
        columns = [[x**power for x in self.xs] for power in self.powers]
        weights = [1 / y**2 if y and not self.of_logs else Fraction(1) for y in self.ys]

        def product(ours: Sequence[Fraction], theirs: Sequence[Fraction]) -> Fraction:
            return sum((w * a * b for w, a, b in zip(weights, ours, theirs, strict=True)), _ZERO)

        return _solve_equations(
            [[product(one, each) for each in (*columns, self.ys)] for one in columns]
        )

    @cached_property
    def distances(self) -> list[Fraction]:
        """Return how far each point is from the line."""
        return [
            abs(sum((f * x**n for f, n in zip(self.terms, self.powers, strict=True)), _ZERO) - y)
            for x, y in zip(self.xs, self.ys, strict=True)
        ]

    @property
    def holds(self) -> bool:
        rise = STRAIGHT * (max(self.ys) - min(self.ys))
        return all(
            off <= max(each, rise) for off, each in zip(self.distances, self.allowed, strict=True)
        )

    @property
    def exact(self) -> bool:
        return not self.of_logs and not any(self.distances)

    @property
    def polynomial(self) -> tuple[Fraction, ...]:
        factors = dict(zip(self.powers, self.terms, strict=True))
        return () if self.of_logs else tuple(factors.get(n, _ZERO) for n in range(max(factors) + 1))


def _list_lines(points: Sequence[Point], tolerance: Tolerance) -> Iterator[_Line]:
    """Yield everything that may be a line, the simplest first."""
    xs, ys = [Fraction(x) for x, _ in points], [Fraction(y) for _, y in points]
    allowed = [tolerance.at(y) for _, y in points]
    yield _Line(Shape.LINEAR, (0, 1), xs, ys, allowed)
    yield _Line(Shape.QUADRATIC, (0, 2), xs, ys, allowed)
    if min(ys) > 0:
        logs = [Fraction(math.log(y)) for y in ys]
        shares = [tolerance.at(y) / y for _, y in points]
        yield _Line(Shape.EXPONENTIAL, (0, 1), xs, logs, shares, of_logs=True)
        if min(xs) > 0:
            log_xs = [Fraction(math.log(x)) for x in xs]
            yield _Line(Shape.POWER, (0, 1), log_xs, logs, shares, of_logs=True)
    yield _Line(Shape.QUADRATIC, (0, 1, 2), xs, ys, allowed)


def _solve_equations(rows: list[list[Fraction]]) -> list[Fraction]:
    """Solve linear equations, their right side last, by Gauss and Jordan: exact in fractions."""
    for n in range(len(rows)):
        rows[n] = [each / rows[n][n] for each in rows[n]]
        for other in range(len(rows)):
            if other != n:
                factor = rows[other][n]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[n], strict=True)]
    return [row[-1] for row in rows]


_ZERO = Fraction(0)
