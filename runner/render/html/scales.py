"""Scales of charts: from a value to a place between 0 and 1, and the ticks along the way."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Tick = tuple[float, str]
"""A place, and what is written there."""

_MOST_TICKS = 7


class Scale(Protocol):
    def place(self, value: float) -> float:
        """Return where a value is, 0 at the low end and 1 at the high one."""
        ...

    def list_ticks(self) -> list[Tick]: ...


@dataclass(frozen=True)
class LinearScale:
    """From `low` to `high`; `text` writes a value as people read it."""

    low: float
    high: float
    text: Callable[[float], str]
    at: Sequence[float] = ()
    """The values that have a tick, such as the sizes that were swept; round ones if empty."""

    def place(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    def list_ticks(self) -> list[Tick]:
        """Return ticks at round values, no two of which have the same text."""
        if self.at:
            return [(self.place(value), self.text(value)) for value in self.at]
        least = (self.high - self.low) / 5
        if least <= 0:
            return [(0.5, shorten(self.text(self.low)))]
        # The next of 1, 2, 5, 10, 20, ... from the least on.
        power = 10.0 ** math.floor(math.log10(least) + 1e-9)
        unit = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-9))
        while True:
            # A billionth more or less: an end that is a round number has its tick.
            first = math.ceil(self.low / unit - 1e-9)
            last = math.floor(self.high / unit + 1e-9)
            values = [number * unit for number in range(first, last + 1)]
            places = {shorten(self.text(value)): self.place(value) for value in values}
            if len(places) == len(values):
                return [(place, text) for text, place in places.items()]
            unit *= 2  # a byte has no halves: two ticks would say the same


@dataclass(frozen=True)
class LogScale:
    """From `low` to `high`, both above 0, in decades; smaller values stand at the low end."""

    low: float
    high: float
    text: Callable[[float], str]
    at: Sequence[float] = ()

    def place(self, value: float) -> float:
        if value <= 0:
            return 0.0
        span = math.log(self.high / self.low)
        return math.log(value / self.low) / span if span else 0.5

    def list_ticks(self) -> list[Tick]:
        """Return ticks at 1, 2, 5, 10, or fewer where these are too many."""
        if self.at:
            return [(self.place(value), self.text(value)) for value in self.at]
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for digits in ((1, 2, 5), (1, 3), (1,)):
            values = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
            inside = [value for value in values if self.low <= value <= self.high]
            if len(inside) <= _MOST_TICKS:
                break
        every = math.ceil(len(inside) / _MOST_TICKS)
        return [(self.place(value), shorten(self.text(value))) for value in inside[::every]]


@dataclass(frozen=True)
class PiecewiseScale:
    """Straight pieces between joints (value, place), in order."""

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

    def list_ticks(self) -> list[Tick]:
        """Return a tick at each joint that has room for one."""
        ticks: list[Tick] = []
        for value, place in self.joints:
            if not ticks or place - ticks[-1][0] >= 0.1:
                ticks.append((place, shorten(self.text(value))))
        return ticks


def make_scale_from_zero(
    values: Sequence[float], text: Callable[[float], str], at: Sequence[float] = ()
) -> LinearScale:
    """Return a scale from 0 to a little above the highest value. Where all are 0 it ends so low
    that its one tick is 0."""
    return LinearScale(0.0, 1.06 * max(values, default=0.0) or 1e-9, text, at)


def choose_scale(
    values: Sequence[float], text: Callable[[float], str], at: Sequence[float] = ()
) -> Scale:
    """Return a logarithmic scale where the values span almost a decade, else one from 0."""
    low, high = min(values), max(values)
    if low > 0 and high / low >= 8:
        return LogScale(low / 1.3, high * 1.3, text, at)
    return make_scale_from_zero(values, text, at)


def shorten(text: str) -> str:
    """Return a round number as a tick has it: `2.00 MB` as `2 MB`, `0 B` as `0`."""
    text = re.sub(r"(\.\d*?)0+(?=\D|$)", r"\1", text)
    text = re.sub(r"\.(?=\D|$)", "", text)
    return "0" if re.fullmatch(r"0 \D+", text) else text
