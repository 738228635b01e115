"""How many bytes a step stay: one judgement for tensors and for the host. Core: NumPy.

What a step leaves behind is growth if it stays: after the warm-up, and without what Python's
collector frees. `judge` looks at the second half of the steps, whatever there is before being
warm-up, and answers

    0       level; or it came back to what it was before: a sawtooth (a cache that is emptied, garbage
            that waits for the collector)
    a rate  lowest and highest both rise through that half, by more than it ever fell back; no one
            jump makes more than half of the rise, and it isn't dying down
    null    it rose, but too little or too irregularly to say that it will go on; and how many steps
            would tell

What `0` can hide is named: below `resolution`, within a window, and under a sawtooth what adds up to
less than a quarter of its height in a quarter of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from runner.records import Trial


@dataclass(frozen=True)
class Tolerance:
    """What a meter can tell."""

    resolution_bytes: int
    """What moves by no more is level."""
    floor_bytes: int
    """A rise of less, over the second half of the steps, isn't called growth yet."""
    settled_share: float
    """Of what the first half of the steps took: a rise of less in the second is its end."""


TENSOR = Tolerance(resolution_bytes=0, floor_bytes=0, settled_share=0.0)
"""Every byte is known."""

HOST = Tolerance(resolution_bytes=4096, floor_bytes=256 * 1024, settled_share=0.02)
"""Resident memory comes in pages, and malloc's arenas in leaps: two of its smallest are the floor.
Over 200 steps that is 2.6 kB a step."""

HOST_STEPS = 200
HOST_SECONDS = 10.0
HOST_LEAST_STEPS = 30
"""Slow growth on the host needs this many steps, or this many seconds of them, and never fewer."""

_LEAST_TENSOR_STEPS = 4
_ONE_JUMP = 0.5
_RETURNED, _RISEN = 0.25, 0.5
"""Shares of the largest fall: a rise of no more is a return, one of more is none."""
_DYING = 0.25
"""By how much of the whole rise the last quarter may rise less than the first."""

_MOST_POINTS = 500  # the slope of a longer series is taken from as many of its points


@dataclass(frozen=True)
class Growth:
    """Of one process."""

    bytes_per_step: float | None
    steps_needed: int | None = None
    """Where the former is null: how many would tell."""
    sawtooth_bytes: float = 0.0
    """What falls back now and then reaches so far above where it falls to; 0 where nothing does."""
    collected_bytes: float = 0.0
    """How much of that was garbage in the end, which Python's collector then freed."""


def of_tensors(trial: Trial) -> Growth | None:
    """Of a memory trial; None where it has no samples."""
    live = trial.steps.get("tensor_live_bytes", [])
    return judge(live, trial.steps.get("tensor_collected_bytes"), TENSOR) if live else None


def of_host(trial: Trial) -> Growth | None:
    """Of a timing trial; None where it has no samples."""
    resident = trial.steps.get("host_bytes", [])
    if not resident:
        return None
    seconds = sum(trial.steps.get("seconds", []))
    enough = len(resident) >= HOST_STEPS or seconds >= HOST_SECONDS
    if not enough or len(resident) < HOST_LEAST_STEPS:
        return Growth(None, HOST_STEPS)
    collected = float(trial.facts.get("host_collected_bytes", 0))
    return judge(resident, _piled_up(resident, collected), HOST)


def judge(
    series: Sequence[float], collected: Sequence[float] | None, tolerance: Tolerance
) -> Growth:
    """What a series of bytes after each step says, `collected` being what of them was garbage."""
    whole = np.asarray(series, dtype=float)
    garbage = np.asarray(collected, dtype=float) if collected else np.zeros_like(whole)
    held = whole - garbage
    count = len(held)
    half = held[(count - 1) // 2 :]
    tooth = _tooth(whole, held, tolerance)
    freed = float(garbage[-1]) if tooth else 0.0

    def growth(rate: float | None, steps: int | None = None) -> Growth:
        return Growth(rate, steps, tooth, freed)

    warmed_up = max(0.0, float(half[0] - held[0]))
    level = max(tolerance.resolution_bytes, tolerance.settled_share * warmed_up)
    if count >= 2 and np.ptp(half) <= level:
        return growth(0.0)
    if count < _LEAST_TENSOR_STEPS:
        return growth(None, 5)
    first, second = half[: (len(half) + 1) // 2], half[(len(half) + 1) // 2 :]
    rise = float(min(second.min() - first.min(), second.max() - first.max()))
    fall = _largest_fall(half)
    if half[-1] - half[0] <= level and rise <= level:
        return growth(0.0)
    if fall > level and rise <= max(level, _RETURNED * fall):
        return growth(0.0)
    if rise > max(level, _RISEN * fall) and _goes_on(half):
        total = rise * len(half) / len(second)
        if total >= tolerance.floor_bytes:
            return growth(_rate(first, second, fall > level))
        return growth(None, _round(count * tolerance.floor_bytes / total))
    return growth(None, 2 * count)


def _goes_on(half: Any) -> bool:
    """Whether a rise is made of many, and of as many late as early."""
    rises = np.diff(half)
    span = float(np.ptp(half))
    if rises.max() > _ONE_JUMP * span:
        return False
    levels = [float(part.mean()) for part in np.array_split(half, min(4, len(half)))]
    early, late = levels[1] - levels[0], levels[-1] - levels[-2]
    return late - early >= -_DYING * (levels[-1] - levels[0])


def _rate(first: Any, second: Any, falls: bool) -> float:
    """Bytes a step: from trough to trough where there are any, else Theil and Sen's slope."""
    if falls:
        low, later = int(first.argmin()), len(first) + int(second.argmin())
        return float((second.min() - first.min()) / (later - low))
    return theil_sen(np.concatenate([first, second]))


def _tooth(whole: Any, held: Any, tolerance: Tolerance) -> float:
    """How far a sawtooth reaches above where it falls to, the collection at the end included. What
    one step adds and another drops is no sawtooth: it builds up over several."""
    fall = max(_largest_fall(whole), float((whole - held)[-1]))
    steepest = float(np.diff(whole).max(initial=0.0))
    return fall if fall > max(tolerance.floor_bytes, 1.5 * steepest) else 0.0


def _largest_fall(series: Any) -> float:
    """Below what had been reached before."""
    return float((np.maximum.accumulate(series) - series).max())


def _piled_up(resident: Sequence[float], collected: float) -> list[float]:
    """Garbage after each step where only its sum is known: as if it had piled up evenly since
    resident memory last fell back by as much as half of it."""
    since = 0
    highest = -math.inf
    for step, bytes_ in enumerate(resident):
        if highest - bytes_ > collected / 2:
            since, highest = step, bytes_
        highest = max(highest, bytes_)
    length = max(1, len(resident) - 1 - since)
    return [collected * max(0, step - since) / length for step in range(len(resident))]


def _round(steps: float) -> int:
    """Upwards, to one digit or two: it is a rough number."""
    scale = 10 ** max(0, math.floor(math.log10(steps)) - 1)
    return math.ceil(steps / scale) * scale


def theil_sen(series: Sequence[float]) -> float:
    """The median of the slopes between all pairs of points: a jump or two don't move it."""
    count = len(series)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int))
    points = np.asarray(series, dtype=float)[chosen]
    first, second = np.triu_indices(len(chosen), k=1)
    return float(np.median((points[second] - points[first]) / (chosen[second] - chosen[first])))


# Over processes, and in words.


def over_processes(found: Sequence[Growth], *, most: bool) -> list[float]:
    """The processes' rates; none where it is unknown. `most`: growth is what most of them show, as
    on the host; else one is enough, as tensors are exact."""
    known = [one.bytes_per_step for one in found if one.bytes_per_step is not None]
    unknown = len(found) - len(known)
    enough = unknown * 2 < len(found) if most else not unknown or max(known, default=0) > 0
    return known if enough else []


def why_unknown(found: Sequence[Growth], name: str, field: str, remedy: str = "") -> str:
    """`name` is what was watched, `field` what sets the number of steps."""
    needed = max(one.steps_needed or 0 for one in found)
    return f"{name} rose, but in too few steps to say whether it goes on: {remedy or field}={needed}"


def sawtooth(found: Growth) -> str:
    """What a person is told of it, or nothing."""
    from runner.metrics import readable_bytes

    if not found.sawtooth_bytes:
        return ""
    garbage = " of garbage until Python's collector runs" if found.collected_bytes else ""
    return f"a sawtooth: up to {readable_bytes(found.sawtooth_bytes)}{garbage}"
