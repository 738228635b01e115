"""The largest value that fits: which value to try next, and when it is found.

Core: standard library and NumPy. Only real runs decide what fits: the search yields what it wants
to try, and is sent what came of it. It spends few runs, and few that fail, because a failing
one costs ten seconds of the allocator's patience:

1. Up from where it starts, in steps too small to run out even if memory grew with the value's cube.
2. After three values, or once the limit is near, straight to where the model says it is. The model
   is what the trials asked their allocator for: each allocation's size, as it changed from value to
   value, is continued, and TensorFlow's allocator is played with them (`bfc`). Where their number
   changes too, what the allocator needed for each is continued instead; where memory varies from
   step to step, since ops run concurrently, the peaks are.
3. The value that fits and the next one, that fails, are both run. Where the model is wrong, the
   search closes in on the limit in steps that double with each surprise, and then by a third of
   what is left, from below: whatever the model says, it ends.

A memory trial tells whether a value fits; the answer must also go through the timing trials of a
whole run. Where memory varies from step to step, since TensorFlow runs ops concurrently, a value
near the limit fits in one run and not in the next. Every probe near it is a whole run then, and the
answer is the safe end of a range: it has fitted in all of a run's processes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from runner.analysis.law import Law, find_law
from runner.analysis.tolerance import find_tolerance
from runner.fit import bfc
from runner.fit.bfc import Requests
from runner.metrics import METRICS, TENSOR_PEAK

Floats = NDArray[np.float64]

_FAR = 16
"""No value is tried that is this many times as large as the largest that fits."""

MOST = 2**31 - 1
"""The largest value that any field may have."""

_PATIENCE = 3
"""Probes in a row that may end otherwise than the model says before it is given up."""

_NEAR = 1.05
"""An end of the range that is no further away is as good as an answer."""

PEAKS = find_tolerance(METRICS[TENSOR_PEAK])
"""Peaks that differ by no more are the same."""


@dataclass(frozen=True)
class Probe:
    """A value that was tried by a real run, and what came of it."""

    value: int
    fits: bool
    peak_bytes: int | None = None
    """Most tensor bytes live at once, where it fits; of memory that grows, after all steps."""
    requests: Requests | None = None
    whole: bool = False
    """True if the timing trials of a whole run were made, too."""
    varies: bool = False
    """True if one step's peak is not the other's."""
    crash: str | None = None
    """How TensorFlow ended, where it should have raised that it was out of memory."""

    @cached_property
    def needs_bytes(self) -> int | None:
        """Return the smallest cap under which it would have fitted, so far as that can be told."""
        if self.requests is None or self.peak_bytes is None:
            return self.peak_bytes
        return max(self.peak_bytes, bfc.find_needed_bytes(self.requests))


class Attempt(NamedTuple):
    """A value to be tried; `whole`: with the timing trials of a whole run as well."""

    value: int
    whole: bool
    fits: bool | None = None
    """What the smaller values say of it."""
    foreseen: int | None = None
    """The largest value that fits, as far as the smaller ones tell."""
    runs: int = 0
    """How many of them that stands on."""


T = TypeVar("T")
Attempts = Generator[Attempt, Probe, T]
"""Yields what is to be tried next, and is sent what came of it."""


@dataclass(frozen=True)
class FoundLimit:
    """The end of a search. `largest` is None where nothing fits, `fails` where `most` does, too."""

    largest: int | None
    fails: int | None
    varies: bool
    """True if values from `largest` to `fails` may do either: then `largest` has fitted in all
    processes of a run, and `fails`, a few per cent more, has run out at least once. Else it is the
    next one, or where no cap on tensors is set at most two per cent more."""
    probes: tuple[Probe, ...]


@dataclass
class LimitSearch:
    """Closes in on the limit of one strategy. `cap_bytes` is the device's; without one, as under a
    host limit, there is no model."""

    cap_bytes: int | None
    most: int = MOST
    is_batch: bool = False
    """True if the value counts examples, each of which takes the same: two values then make a
    model."""
    probes: list[Probe] = field(default_factory=list)
    _low: int | None = None
    _high: int | None = None
    _completed: set[int] = field(default_factory=set)
    """The values of which a whole run completed."""
    _varies: bool = False
    """True once memory was seen to vary: all probes are whole runs, and the answer is a range."""
    _range_began: int = 0
    """The number of probes before that."""
    _surprises: int = 0
    """Probes in a row that did not end as the model said."""
    _foreseen: int | None = None
    """What the model says is the largest value."""

    def run(self, start: int) -> Attempts[FoundLimit]:
        """Yield the values to try, from `start` on; return the answer."""
        value: int | None = min(max(1, start), self.most)
        while value is not None:
            yield from self._try(value, whole=self._varies)
            value = self._choose_in_range() if self._varies else (yield from self._choose())
        return FoundLimit(self._low, self._high, self._varies, tuple(self.probes))

    def _try(self, value: int, *, whole: bool) -> Attempts[bool]:
        expected = self._make_forecast().fits(value)
        foreseen = None if self._foreseen == MOST else self._foreseen
        probe = yield Attempt(value, whole, expected, foreseen, min(3, len(self._fitting)))
        self.probes.append(probe)
        is_surprise = expected == (not probe.fits) and not self._varies
        self._surprises = self._surprises + 1 if is_surprise else 0
        if probe.fits:
            self._low = max(value, self._low or 0)
            self._completed |= {value} if probe.whole else set()
        else:
            self._high = value
        return probe.fits

    # Where a value fits or does not.

    def _choose(self) -> Attempts[int | None]:
        """Return a value between what fits and what fails; None when the answer is found."""
        if self._low is None:
            assert self._high is not None
            return max(1, self._high // 16) if self._high > 1 else None
        most_left = self.most if self._high is None else self._high - 1
        near = 1 if self.cap_bytes is not None or self._high is None else _compute_step(self._low)
        if self._low + near <= most_left:
            return self._choose_between(self._low, most_left)
        if self._low in self._completed or (yield from self._try(self._low, whole=True)):
            return None
        return self._begin_range(None)

    def _choose_between(self, low: int, most_left: int) -> int | None:
        """Return a value up to `most_left`; one below `low` where a model needs one more."""
        a_third = min(most_left, low + -(-(most_left + 1 - low) // 3))
        above = min(2 * low, most_left) if self._high is None else a_third
        if self.cap_bytes is None:
            return above
        if self._high is not None and len(self._fitting) == 1 and low > 1:
            return low // 2  # it fits, and two are enough for a model
        forecast = self._make_forecast()
        self._foreseen = guess = forecast.largest(low, MOST)
        if guess is not None:
            guess = min(guess, most_left, low * _FAR)
        is_sure = forecast.is_settled or (self.is_batch and self._high is None)
        if guess is None or (guess > 2 * low and not is_sure):
            peak = self._fitting[-1].peak_bytes
            # It fits even if memory grows with the value's cube.
            safe = int(low * (self.cap_bytes / peak) ** (1 / 3)) if peak else 2 * low
            careful = max(low + 1, safe)
            return min(careful, above if guess is None or self._high is not None else guess)
        if any(probe.varies for probe in self.probes):
            return self._begin_range(guess)
        if self._high is not None and forecast.fits(self._high):  # it did not
            if self._surprises > _PATIENCE:
                return a_third
            step = max(1, self._high // 100) << max(0, self._surprises - 1)
            return max(a_third, self._high - step)
        if guess == low:
            return min(low + (1 << self._surprises), above)
        return guess

    # Where memory varies.

    def _begin_range(self, guess: int | None) -> int | None:
        """Begin anew with whole runs: memory trials count no more, but what failed did fail."""
        if not self._varies:
            self._varies, self._range_began = True, len(self.probes)
        self._low = max(self._completed, default=None)
        return self._choose_in_range() if guess is None else guess

    def _choose_in_range(self) -> int | None:
        """Return a value down from what fails, or up from what fits, in steps that double; then
        halves, down to a step."""
        low, high = self._low, self._high
        if low is None:
            assert high is not None
            return max(1, high - (_compute_step(high) << self._in_a_row - 1)) if high > 1 else None
        if high is None and low < self.most:
            return min(self.most, low + (_compute_step(low) << self._in_a_row - 1))
        if high is not None and high - low > _compute_step(low):
            return (low + high) // 2
        return None

    @property
    def _in_a_row(self) -> int:
        """Return how many of the last probes of the range ended alike."""
        alike = itertools.takewhile(
            lambda probe: probe.fits == self.probes[-1].fits,
            reversed(self.probes[self._range_began :]),
        )
        return min(8, max(1, sum(1 for _ in alike)))

    @property
    def _fitting(self) -> list[Probe]:
        return _list_fitting(self.probes)

    def _make_forecast(self) -> DemandForecast:
        return DemandForecast(self._fitting[-3:], self.cap_bytes or 0)


def _list_fitting(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes that fit, smallest first; of each value the last."""
    by_value = {probe.value: probe for probe in probes if probe.fits}
    return [by_value[value] for value in sorted(by_value)]


def find_near_answer(probes: Sequence[Probe], cap_bytes: int | None) -> tuple[int, int] | None:
    """Return the largest value that fits and one that does not, seen or foreseen, if within 5 %."""
    fitting = _list_fitting(probes)
    failing = [probe.value for probe in probes if not probe.fits]
    if not fitting:
        return None
    low, high = fitting[-1].value, min(failing, default=MOST)
    if cap_bytes is not None and high > _NEAR * low:
        forecast = DemandForecast(fitting[-3:], cap_bytes)
        largest = forecast.largest(low, _FAR * low) if forecast.is_settled else None
        high = high if largest is None else min(high, largest + 1)
    return (low, high) if low < high <= max(low + 1, _NEAR * low) else None


def _compute_step(value: int) -> int:
    """Return how near the end of a range is told, and a limit on the host: memory that was free
    before, and threads, make the last per cent differ from process to process."""
    return max(1, value // 50)


class DemandForecast:
    """The memory that larger values would need, by up to three that fit."""

    def __init__(self, probes: Sequence[Probe], cap_bytes: int) -> None:
        self._probes = [probe for probe in probes if probe.peak_bytes is not None]
        self._cap_bytes = cap_bytes
        self._sizes = self._align()
        self._needs = None if self._sizes else self._extrapolate_needs()

    @property
    def is_settled(self) -> bool:
        """Return True if it stands on three values."""
        return len(self._probes) >= 3

    def fits(self, value: int) -> bool | None:
        """Return whether a value would fit; None where nothing can be said."""
        if self._sizes is not None:
            requests = self._probes[-1].requests
            assert requests is not None
            sizes = np.maximum(0, np.rint(self._sizes(value))).astype(np.int64).tolist()
            return bfc.can_fit(requests, sizes, self._cap_bytes)
        if self._needs is not None:
            return float(self._needs(value)) <= self._cap_bytes
        return None

    def largest(self, low: int, most: int) -> int | None:
        """Return the largest value from `low`, which fits, to `most` that would fit."""
        if self._sizes is None and self._needs is None:
            return None
        high = low + 1
        while high <= most and self.fits(high):
            low, high = high, 2 * high
        high = min(high, most + 1)
        while high - low > 1:
            middle = (low + high) // 2
            if self.fits(middle):
                low = middle
            else:
                high = middle
        return low

    def _align(self) -> Extrapolation | None:
        """Return each allocation's size as a function of the value, if the trials made the same.

        An allocation is known by what asked for it and how often that had asked before. A few may
        be more or fewer; they keep their size. Where memory varies, ops run in any order, and one
        order's limit says little of the other's.
        """
        points: list[tuple[int, Floats]] = []
        counts = {len(probe.requests.bytes) for probe in self._probes if probe.requests}
        if len(counts) > 2:
            return None  # it changes with the value: only values near one another look the same
        for probe in self._probes:
            if probe.requests is None or probe.varies:
                return None
            newest = self._probes[-1].requests
            assert newest is not None
            sizes = _align_sizes(newest, probe.requests)
            if sizes is not None:
                points.append((probe.value, sizes))
        return Extrapolation(points, tolerance=0.0) if len(points) >= 2 else None

    def _extrapolate_needs(self) -> Extrapolation | None:
        """Return what the allocator needs as a function of the value; where memory varies, the
        peaks, for what one order of ops needs says little of the next."""
        if len(self._probes) < 2:
            return None
        concurrent = any(probe.varies for probe in self._probes)
        points = [
            (probe.value, np.array(float(needs)))
            for probe in self._probes
            if (needs := probe.peak_bytes if concurrent else probe.needs_bytes) is not None
        ]
        return Extrapolation(points, tolerance=0.02)


def _align_sizes(newest: Requests, older: Requests) -> Floats | None:
    """Return the sizes of `older`'s allocations, where each has its counterpart in `newest`."""
    if abs(len(newest.bytes) - len(older.bytes)) > len(newest.bytes) // 50:
        return None
    known = dict(zip(_number_labels(older), older.bytes, strict=True))
    sizes_before = [known.get(key) for key in _number_labels(newest)]
    if sizes_before.count(None) > len(sizes_before) // 50:
        return None
    sizes = [
        old if old is not None else new for old, new in zip(sizes_before, newest.bytes, strict=True)
    ]
    return np.array(sizes, float)


def _number_labels(requests: Requests) -> list[tuple[str, int]]:
    seen: Counter[str] = Counter()
    keys = []
    for label in requests.labels:
        keys.append((label, seen[label]))
        seen[label] += 1
    return keys


class Extrapolation:
    """Numbers that were seen at two or three values, continued: in a straight line, and where the
    first of three lies above the line by more than `tolerance` of it, in a parabola. Never in one
    that bends down: who guesses too low spends a probe that fits, who guesses too high ten seconds.
    """

    def __init__(self, points: Sequence[tuple[int, Floats]], tolerance: float) -> None:
        (at0, y0), (at1, y1), (at2, y2) = points[-3:] if len(points) > 2 else (points[0], *points)
        self._at1, self._at2, self._last = at1, at2, y2
        self._slope = (y2 - y1) / (at2 - at1)
        self._curve = np.zeros_like(y2)
        if at0 != at1:
            line = y1 - self._slope * (at1 - at0)
            off = y0 - line > np.maximum(1.0, tolerance * np.abs(y0))
            before = (y1 - y0) / (at1 - at0)
            self._curve = np.where(off, (self._slope - before) / (at2 - at0), 0.0)

    def __call__(self, value: int) -> Floats:
        past = value - self._at2
        return self._last + self._slope * past + self._curve * past * (value - self._at1)


@dataclass(frozen=True)
class PeakModel:
    """Peak bytes as `constant + linear * value + square * value ** 2`; the last is often 0."""

    constant: float
    linear: float
    square: float
    instead: Law | None = None
    """The law that the peaks follow, where this is just the line that is nearest to them."""

    def __call__(self, value: float) -> float:
        return self.constant + self.linear * value + self.square * value * value


def fit_model(probes: Sequence[Probe]) -> PeakModel | None:
    """Return the law that the probes' peaks follow, or else the nearest line: for people. A
    parabola that bends down is what varying memory looks like near the cap, and no law."""
    peaks = {probe.value: probe.peak_bytes for probe in probes if probe.peak_bytes is not None}
    if len(peaks) < 2:
        return None
    law = find_law(peaks.items(), PEAKS)
    known = [float(factor) for factor in law.polynomial] if law else []
    if known and all(square > 0 for square in known[2:]):
        constant, linear, square = [*known, 0.0, 0.0][:3]
        return PeakModel(constant, linear, square)
    slope, start = np.polyfit(list(peaks), list(peaks.values()), 1)
    return PeakModel(float(start), float(slope), 0.0, instead=law)
