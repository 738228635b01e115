"""How many bytes a step stay: one judgement for tensors and for the host. Core: NumPy.

What a step leaves behind is growth if it stays: after the warm-up, and without what Python's
collector frees. `judge` looks at the second half of the steps, whatever there is before being
warm-up, and answers

    0       level; or it came back to what it was before: a sawtooth (a cache that is emptied,
            garbage that waits for the collector)
    a rate  lowest and highest both rise through that half; no one jump makes more than half of the
            rise, and it isn't dying down. Or what lies under a sawtooth rises:

                 /|    /|  /   y   what is read
              /|/ |  /| | /    |   what falls back: garbage, or a cache that is emptied
             / |__|_/ |_|/    _|_  what is kept: it lies under all, and next to a trough
            /  ......           .  the slope from trough to trough, as sure as they are in line
    null    it rose, but too little or too irregularly to say that it will go on; and how many steps
            would tell

Where there is garbage on the host, clean readings tell: before some of the later steps it was
collected, and what malloc had free given back. A line through them is the growth, or they are
level. Without them (a short trial, a callback) only what all steps together have kept is known, and
malloc's own books are asked: resident memory is level while what was free is filled, and rises for
a while because garbage waits that goes at once. Then it is null.

A bound is what was shown in every way of looking at it, not the likeliest.

Cheap steps are repeated until it is one of the first two (`RiseWatch`): a leak of 100 B a step
takes some 6,000 steps, and what keeps its last 250 tensors rises for 250.

What `0` can hide is named: what stays level for half of all steps and rises later; and what adds up
to less than the meter's resolution, or to an eighth of its floor. `at_most_bytes_per_step` is that
as a rate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from runner.facts import CleanReadings, MallocBooks
from runner.metrics import format_bytes
from runner.records import Trial


@dataclass(frozen=True)
class MeterTolerance:
    """The smallest differences that a meter can tell."""

    resolution_bytes: int
    """A series that moves by no more is level."""
    floor_bytes: int
    """A rise of less, over the second half of the steps, isn't called growth yet."""
    settled_share: float
    """Share of what the first half of the steps took: a rise of less in the second is its end, if
    it is less than `unseen_bytes`, too."""

    @property
    def unseen_bytes(self) -> float:
        """Return the largest rise over the second half of the steps that `0` may hide."""
        return self.floor_bytes / 8

    def find_unseen(self, steps: int) -> float:
        """Return the same of so many steps; 0 where every byte is known."""
        most = self.unseen_bytes and max(self.unseen_bytes, _LEAST_RATE * steps)
        return min(_UNSEEN_RATE * steps, most)


TENSOR = MeterTolerance(resolution_bytes=0, floor_bytes=0, settled_share=0.0)
"""Every byte is known."""

HOST = MeterTolerance(resolution_bytes=4096, floor_bytes=256 * 1024, settled_share=0.02)
"""Resident memory comes in pages, and malloc's arenas in leaps: two of its smallest are the floor.
Over 200 steps that is 2.6 kB a step."""

ALLOCATOR = MeterTolerance(resolution_bytes=64_000, floor_bytes=256 * 1024, settled_share=0.02)
"""TensorFlow's own figure, which counts what a tensor's chunk has beyond it."""

HOST_STEPS = 200
HOST_SECONDS = 10.0
HOST_LEAST_STEPS = 30
"""Slow growth on the host needs this many steps, or this many seconds of them, and never fewer."""

LEVEL_STEPS = 1000
LEVEL_SECONDS = 0.1
"""Cheap steps go on until there are so many, or have taken so long, if they seem level: 200 of them
hide what keeps 40 bytes a step."""
HELD_STEPS = 2000
"""Cheap steps go on until there are so many, if they seem to grow: 200 of them are growth to what
keeps the last few hundred of something."""

_UNSEEN_RATE = 16.0
"""Bytes a step that thousands of level steps may have risen by: TensorFlow's own come and go."""
_LEAST_RATE = 2.0
"""Bytes a step that resident memory cannot tell from none: a page in some two thousand steps."""

_LEAST_STEPS = 4
_ONE_JUMP = 0.51
"""Largest share of a rise that one step may make; of two steps that are alike neither has more."""
_TOOTH = 0.25
"""Of what half a series moves by: a larger fall makes it a sawtooth."""
_LEAST_READINGS = 6
"""Clean ones in the second half of the steps."""
_PARTS_BYTES = 3 * 4096
"""Parts of pages come and go under clean readings: by no more they are level."""
_STAYS = 0.1
"""Share of garbage that may stay resident after it was freed, where other things lie beside it."""
_WARM = 0.4
"""Share of a series: troughs after it, and the last one before, tell growth."""
_EXACT = 1e-9
"""Share of a span: what rounding makes of 0."""
_SURE = 0.3
"""Of a rate: it may be so much more or less."""
_DYING = 0.34
"""By how much of the whole rise the last quarter may rise less than the first."""

_SPREAD_STEPS = 50
"""Of half a series: enough for tenths to say something."""
_MARGIN = 1.25
"""More steps than a rise needs to reach the floor, as far as is known of it."""
_MOST_POINTS = 60
"""The slope of a longer series is taken from so many of its points: a timing trial looks at its
series between two steps, and what that takes (0.1 MB, all pairs among it) hides so much of a
leak."""


@dataclass(frozen=True)
class ProcessGrowth:
    """The growth of one process."""

    bytes_per_step: float | None
    steps_needed: int | None = None
    """The number of steps that would tell, where the rate is null."""
    at_most_bytes_per_step: float | None = None
    """A bound, where there is no rate: what rose in the second half, as if it all were growth, or
    what `0` may hide; null where too few steps were taken for even that."""
    sawtooth_bytes: float = 0.0
    """The height of what falls back now and then; 0 where nothing does."""
    collected_bytes: float = 0.0
    """The part of it that was garbage in the end, which Python's collector then freed."""


def judge_tensors(trial: Trial) -> ProcessGrowth | None:
    """Return the growth of tensors in a memory trial; None where it has no samples."""
    live = trial.steps.tensor_live_bytes
    return judge_series(live, trial.steps.tensor_collected_bytes, TENSOR) if live else None


def judge_host(trial: Trial) -> ProcessGrowth | None:
    """Return the growth of host memory in a timing trial; None where it has no samples."""
    steps, facts = trial.steps, trial.facts
    if not steps.host_bytes:
        return None
    if not is_enough_for_host(steps.host_steps, steps.host_seconds):
        return ProcessGrowth(None, HOST_STEPS)
    collected = float(facts.host_collected_bytes or 0)
    stride = steps.host_stride or 1
    return judge_resident(steps.host_bytes, stride, facts.clean, facts.malloc, collected)


def judge_resident(
    resident: Sequence[float],
    stride: int,
    clean: CleanReadings | None,
    books: MallocBooks | None = None,
    collected: float = 0.0,
) -> ProcessGrowth:
    """Return the growth of resident memory, of which there is a value for each `stride` steps;
    `collected` bytes were garbage in the end."""
    last = [0.0] * (len(resident) - 1) + [collected] if collected > HOST.unseen_bytes else None
    raw = judge_series(resident, last, HOST, stride)
    if raw.bytes_per_step is None and raw.sawtooth_bytes and raw.at_most_bytes_per_step:
        most = (1 + _SURE) * raw.at_most_bytes_per_step  # memory that malloc keeps moves troughs
        raw = replace(raw, at_most_bytes_per_step=most)
    late = [step for step in clean.steps if step >= stride * len(resident) // 2] if clean else []
    if clean is None or len(late) < _LEAST_READINGS:
        return _judge_unclean(raw, resident, stride, books, collected)
    readings = clean.bytes[-len(late) :]
    garbage = max([collected, *clean.collected_bytes[-len(late) :]])
    falls = _find_largest_fall(np.asarray(readings)) > _PARTS_BYTES  # as a cache that is emptied
    if garbage <= HOST.unseen_bytes and (raw.bytes_per_step or falls):
        return raw
    found = _judge_clean(readings, late[1] - late[0], garbage)
    return replace(found, sawtooth_bytes=raw.sawtooth_bytes, collected_bytes=raw.collected_bytes)


def _judge_clean(readings: Sequence[float], stride: int, garbage: float) -> ProcessGrowth:
    """Return what clean readings say, by the line through them. Of so much garbage some may stay
    resident, in pages and arenas that something else lies in, too."""
    least = np.minimum(readings[:-1], readings[1:])  # what comes and goes is not kept
    length = len(least) - 1
    steps = stride * length
    slope, off, *_ = _fit_line(np.arange(len(least)), least)
    rise, most = slope * length, max(0.0, slope + off) * length + HOST.resolution_bytes
    level = max(_PARTS_BYTES, HOST.find_unseen(steps))
    if np.ptp(least) <= level or (most <= HOST.floor_bytes and rise - off * length <= level):
        return ProcessGrowth(0.0, None, max(most, HOST.unseen_bytes) / steps)
    is_one_jump = np.diff(least).max() > _ONE_JUMP * np.ptp(least)
    is_clear = rise >= max(HOST.floor_bytes, _STAYS * garbage) and off <= _SURE * slope
    if is_clear and not is_one_jump:
        return ProcessGrowth(slope / stride)
    return ProcessGrowth(None, _round_up(4 * steps), most / steps)


def _judge_unclean(
    raw: ProcessGrowth,
    resident: Sequence[float],
    stride: int,
    books: MallocBooks | None,
    collected: float,
) -> ProcessGrowth:
    """Return what is known without clean readings.

    What the last one has, less the garbage in it, is all that was kept. And malloc's books may move
    by more than what is resident: a leak fills what was free, or garbage has left it.
    """
    steps = stride * max(1, len(resident) - 1)
    needed = raw.steps_needed or _round_up(2 * steps)
    most = find_bound([raw])
    if collected > HOST.unseen_bytes:
        of_one = max(0.0, float(np.quantile(np.diff(resident), 0.9)))
        kept = resident[-1] - collected - min(resident[:_LEAST_STEPS]) + 4 * of_one
        most = max(0.0, kept) / steps
        is_level = most * max(steps, HOST_STEPS) / 2 < HOST.floor_bytes
        return replace(
            raw,
            bytes_per_step=0.0 if is_level else None,
            steps_needed=None if is_level else needed,
            at_most_bytes_per_step=most,
        )
    if books is None or books.steps[-1] < steps / 2 or raw.bytes_per_step is None:
        return raw
    in_use = np.asarray(books.in_use_bytes, dtype=float)[np.asarray(books.steps) >= steps / 2]
    half = np.asarray(resident[len(resident) // 2 :])
    if raw.bytes_per_step:
        is_doubted = _find_largest_fall(in_use) > _ONE_JUMP * np.ptp(half)
    else:
        is_doubted = not raw.sawtooth_bytes and np.ptp(in_use) > HOST.floor_bytes
    if not is_doubted:
        return raw
    most = max(most or 0.0, 2 * float(max(np.ptp(half), np.ptp(in_use))) / steps)
    return replace(raw, bytes_per_step=None, steps_needed=needed, at_most_bytes_per_step=most)


def is_enough_for_host(steps: int, seconds: float) -> bool:
    """Return True if so many steps, in so many seconds, can tell slow growth."""
    return steps >= HOST_LEAST_STEPS and (steps >= HOST_STEPS or seconds >= HOST_SECONDS)


def judge_series(
    series: Sequence[float],
    collected: Sequence[float] | None,
    tolerance: MeterTolerance,
    stride: int = 1,
) -> ProcessGrowth:
    """Return what a series of bytes says, one each `stride` steps; `collected` were garbage."""
    whole = np.asarray(series, dtype=float)
    garbage = np.asarray(collected, dtype=float) if collected else np.zeros_like(whole)
    held = whole - garbage
    count = len(held)
    start = count // 2 if count < _LEAST_STEPS else min(count // 2, count - 3)
    half = held[start:]
    tooth = _measure_sawtooth(whole, held, tolerance)
    freed = float(garbage[-1]) if tooth else 0.0

    def growth(
        rate: float | None, needed: int | None = None, most: float | None = None
    ) -> ProcessGrowth:
        if rate == 0:
            most = max(most or 0.0, tolerance.unseen_bytes)
        return ProcessGrowth(
            rate if rate is None else rate / stride,
            needed,
            None if most in (None, math.inf) else most / (stride * max(1, len(half) - 1)),
            sawtooth_bytes=tooth,
            collected_bytes=freed,
        )

    if count < 2:
        return growth(None, 5)
    warmed_up = max(0.0, float(half[0] - held[0]))
    settled = min(tolerance.settled_share * warmed_up, tolerance.unseen_bytes)
    steps = stride * len(half)
    level = max(tolerance.resolution_bytes, settled, tolerance.find_unseen(steps))
    span = float(np.ptp(half))
    if span <= level:
        return growth(0.0, most=span + tolerance.resolution_bytes)
    if count < _LEAST_STEPS:
        return growth(None, 5)
    first, second = half[: (len(half) + 1) // 2], half[(len(half) + 1) // 2 :]
    before = held[: start + len(first)]
    rise = float(min(second.min() - first.min(), second.max() - before.max()))
    falls_alone = _find_largest_fall(-half) <= level
    if falls_alone or (half[-1] - half[0] <= level and _find_largest_fall(half) <= level):
        return growth(0.0, most=level + tolerance.resolution_bytes)
    if _find_largest_fall(held[count // 3 :]) > max(level, _TOOTH * span):
        slope, error, most = _measure_sawtooth_growth(held, level)
        length = len(half) - 1
        is_little = (slope + error) * length <= max(level, tolerance.floor_bytes, _EXACT * span)
        if is_little and (slope - error) * length <= tolerance.unseen_bytes:
            return growth(0.0, most=max(0.0, most) * length + tolerance.resolution_bytes)
        if slope * length >= tolerance.floor_bytes and error <= _SURE * slope:
            return growth(slope)
        return growth(None, _round_up(2 * stride * count), most * length)
    is_high = rise * len(half) / len(second) >= tolerance.floor_bytes
    if is_high and rise > level and _is_steady(half):
        return growth(compute_slope(half.tolist()))
    sure = max(rise - tolerance.resolution_bytes, tolerance.resolution_bytes)
    total = max(sure, 1) * len(half) / len(second)
    needed = max(2 * count, _MARGIN * count * tolerance.floor_bytes / total)
    usual = float(np.quantile(np.maximum(0.0, np.diff(half)), 0.9))
    most = span + max(usual, tolerance.resolution_bytes)
    return growth(None, _round_up(stride * needed), most)


class RiseWatch:
    """Decides between two steps if more of them would tell growth from none.

    Level is level once it was so for a while. A rise must hold for longer, and be growth in two
    looks one after the other: what keeps its last thousand tensors rises for a thousand steps. What
    neither is needs more steps in any case.
    """

    def __init__(self) -> None:
        self.needs_more = True
        self._next_look = 0
        self._has_risen = False

    def is_due(self, steps: int) -> bool:
        """Return True if it is time to look again: each look has twice as many steps."""
        return self.needs_more and steps >= self._next_look

    def look(self, steps: int, seconds: float, found: ProcessGrowth) -> None:
        """Learn what so many steps, in so many seconds, say."""
        if found.bytes_per_step == 0:
            self.needs_more = steps < LEVEL_STEPS and seconds < LEVEL_SECONDS
        elif found.bytes_per_step:
            self.needs_more = steps < HELD_STEPS or not self._has_risen
        self._has_risen = bool(found.bytes_per_step)
        self._next_look = 2 * steps


def _measure_sawtooth_growth(held: Any, level: float) -> tuple[float, float, float]:
    """Return by how much a step a sawtooth rises, by how much more or less that may be, and what it
    isn't beyond in any way of looking at it.

    What is kept lies below every point, and next to a trough. Two ways lead to it, of which the
    surer counts: from trough to trough; and all points, less what each step has added since the
    last trough. One trough only bounds what came after it.
    """
    count = len(held)
    lows = np.asarray(_list_troughs(held, _find_largest_fall(held) / 3))
    lows = lows[max(0, np.count_nonzero(lows < _WARM * count) - 1) :].astype(int)
    if len(lows) == 1 and held[lows[0]] <= held[0] + level:  # it fell back to where it began
        lows = np.asarray([0, *lows])
    ways = list[tuple[float, ...]]()
    if len(lows) > 1:
        places = np.arange(lows[0], count)
        ages = places - lows[np.searchsorted(lows, places, side="right") - 1]
        ways.append(_fit_line(places, held[places], ages))
        slope, off, *_ = _fit_line(lows, held[lows])
        ways.append((slope, off))
        if len(lows) == 2:  # it may have been the last rise
            ways = [(way[0], max(abs(way[0]), way[1])) for way in ways]
    if ways:
        slope, off, *_ = min(ways, key=lambda way: way[1])
        most = max(way[0] + way[1] for way in ways)
        return slope, off + level / count, most + level / count
    if not len(lows) or lows[0] + _LEAST_STEPS >= count:
        return 0.0, math.inf, math.inf
    steepest = float(np.quantile(np.maximum(0.0, np.diff(held)), 0.9))
    later = np.arange(lows[0] + _LEAST_STEPS, count)
    most = float(((held[later] - held[lows[0]] + steepest) / (later - lows[0])).min())
    return 0.0, most, most


def _fit_line(places: Any, values: Any, *also: Any) -> tuple[float, ...]:
    """Return the slope of values over their places, by how much more or less it may be, and what
    each other cause adds."""
    causes = np.stack([np.ones(len(places)), places, *also], axis=1)
    fitted = np.linalg.lstsq(causes, values, rcond=None)[0]
    off = float(np.ptp(np.quantile(values - causes @ fitted, (0.05, 0.95))))
    return (float(fitted[1]), off / float(places[-1] - places[0]), *map(float, fitted[2:]))


def _list_troughs(held: Any, least: float) -> list[int]:
    """Return where it is lowest after each fall by `least`, before it rises as far again."""
    lows, low, high = list[int](), 0, float(held[0])
    is_falling = False
    for place, value in enumerate(held.tolist()):
        if is_falling:
            if value <= held[low]:
                low = place
            elif value - held[low] >= least:
                lows.append(low)
                is_falling, high = False, value
        elif high - value >= least:
            is_falling, low = True, place
        high = max(high, value)
    return [*lows, low] if is_falling and low < len(held) - 1 else lows


def _list_falls(held: Any) -> Any:
    """Return by how much each step is below the one before it; 0 where it is not."""
    return np.maximum(0.0, held[:-1] - held[1:])


def _is_steady(half: Any) -> bool:
    """Return True if a rise is made of many, all along, and of as many late as early.

    All along: a few jumps make a slope, too, but leave most tenths level with those before. So of
    the eight rises from a tenth to the next but one (growth may come in stairs), six at least must
    be half of what the slope promises. Under a sawtooth tenths go up and down anyway.
    """
    rises = np.diff(half)
    span = float(np.ptp(half))
    if rises.max() > _ONE_JUMP * span:
        return False
    if len(half) >= _SPREAD_STEPS and np.count_nonzero(_list_falls(half) > span / 4) < 2:
        tenths = [float(np.median(part)) for part in np.array_split(half, 10)]
        promised = compute_slope(half.tolist()) * len(half) / 5
        kept = sum(
            later - earlier > promised / 2
            for earlier, later in zip(tenths, tenths[2:], strict=False)
        )
        if promised <= 0 or kept < 6:
            return False
    levels = [float(part.mean()) for part in np.array_split(half, min(4, len(half)))]
    early, late = levels[1] - levels[0], levels[-1] - levels[-2]
    return late - early >= -_DYING * (levels[-1] - levels[0])


def _measure_sawtooth(whole: Any, held: Any, tolerance: MeterTolerance) -> float:
    """Return how far a sawtooth reaches above where it falls to, the collection at the end
    included; 0 where there is none.

    What one step adds and another drops is no sawtooth: it builds up over several.
    """
    fall = max(_find_largest_fall(whole), float((whole - held)[-1]))
    steepest = float(np.diff(whole).max(initial=0.0))
    return fall if fall > max(tolerance.floor_bytes, 1.5 * steepest) else 0.0


def _find_largest_fall(series: Any) -> float:
    """Return how far the series falls at most below what it had reached."""
    return float((np.maximum.accumulate(series) - series).max())


def _round_up(steps: float) -> int:
    """Return a rough number of steps: one digit or two."""
    scale: int = 10 ** max(0, math.floor(math.log10(steps)) - 1)
    return int(math.ceil(steps / scale) * scale)


def compute_slope(series: Sequence[float]) -> float:
    """Return the median slope between all pairs of points (Theil and Sen): jumps don't move it."""
    count = len(series)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int))
    points = np.asarray(series, dtype=float)[chosen]
    first, second = np.triu_indices(len(chosen), k=1)
    return float(np.median((points[second] - points[first]) / (chosen[second] - chosen[first])))


# Over processes, and in words.


def list_rates(found: Sequence[ProcessGrowth], *, most: bool) -> list[float]:
    """Return the processes' rates; none where it is unknown.

    `most`: growth is what most of them show, as on the host; else one is enough, as tensors are
    exact.
    """
    known = [one.bytes_per_step for one in found if one.bytes_per_step is not None]
    unknown = len(found) - len(known)
    enough = unknown * 2 < len(found) if most else not unknown or max(known, default=0) > 0
    return known if enough else []


def check_against_host(found: ProcessGrowth, on_host: Sequence[ProcessGrowth]) -> ProcessGrowth:
    """Return the growth of tensors on the CPU, unless resident memory excludes it, over more steps
    than can be traced: what keeps its last hundred tensors rises for a hundred steps."""
    bound = find_usual_bound(on_host)
    most = found.bytes_per_step or found.at_most_bytes_per_step or 0.0
    if bound is None or most <= 2 * bound:
        return found
    rates = list_rates(on_host, most=True)
    is_level = bool(rates) and statistics.median_low(rates) == 0
    return replace(
        found,
        bytes_per_step=0.0 if is_level else None,
        steps_needed=None if is_level else LEVEL_STEPS,
        at_most_bytes_per_step=bound,
    )


def find_usual_bound(found: Sequence[ProcessGrowth]) -> float | None:
    """Return what the growth of most isn't beyond; None where most can't even say that."""
    bounds = [bound for each in found if (bound := find_bound([each])) is not None]
    return statistics.median_high(bounds) if 2 * len(bounds) > len(found) else None


def find_bound(found: Sequence[ProcessGrowth]) -> float | None:
    """Return what no process' growth is beyond; None where one of them can't even say that."""
    bounds = [one.bytes_per_step or one.at_most_bytes_per_step for one in found]
    known = [bound for bound in bounds if bound is not None]
    return max(known) if known and len(known) == len(bounds) else None


def describe_sawtooth(found: Iterable[ProcessGrowth | None]) -> str:
    """Return what a person is told where memory rises and falls back; empty where it doesn't."""
    teeth = [one for one in found if one is not None and one.sawtooth_bytes]
    if not teeth:
        return ""
    highest = max(teeth, key=lambda one: one.sawtooth_bytes)
    garbage = " of garbage that waits for Python's collector" if highest.collected_bytes else ""
    return f"a sawtooth, {format_bytes(highest.sawtooth_bytes)} high at the peak{garbage}"
