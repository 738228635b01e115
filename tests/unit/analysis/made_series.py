"""Series of bytes after each step whose growth is known, because they were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from runner.analysis.growth import HOST, TENSOR, judge_series

Meter = Literal["tensor", "host"]
Random = np.random.Generator
PAGE = 4096
STEPS = {"tensor": 20, "host": 200}
"""Those of `measure=standard`."""


def resident(
    random: Random, steps: int = 200, leak: float = 0.0, jumps: float = 0.0
) -> list[float]:
    """Resident memory as Linux shows it: a warm-up that levels off, whole pages that come and go,
    arenas that malloc takes and sometimes gives back (`jumps` in 100 steps), and a leak."""
    step = np.arange(steps)
    series = 50e6 * (1 - np.exp(-step / random.uniform(steps / 40, steps / 14))) + leak * step
    series += PAGE * np.cumsum(random.choice([-1, 0, 1], p=[0.1, 0.8, 0.1], size=steps))
    series += PAGE * random.integers(0, 4, size=steps)
    for _ in range(random.poisson(jumps * steps / 100)):
        size = random.choice([132, 256, 528, 1024]) * 1024 * random.choice([1, 1, -1])
        series += np.where(step >= random.integers(steps), size, 0)
    return _pages(series)


def _pages(series: Any) -> list[float]:
    return (PAGE * np.floor(series / PAGE)).tolist()  # type: ignore[no-any-return]


def _none(random: Random, step: Any) -> Any:
    return np.full(step.size, random.uniform(1e4, 1e8))


def _warm_up(random: Random, step: Any) -> Any:
    length = random.uniform(0.02, 0.1) * step.size
    return random.uniform(1e4, 5e7) * (1 - np.exp(-np.minimum(step, 0.45 * step.size) / length))


def _filled(random: Random, step: Any) -> Any:
    """A cache that is full before half of the steps are over."""
    return random.uniform(1e3, 1e6) * np.minimum(step, random.integers(1, int(0.45 * step.size)))


def _jump(random: Random, step: Any) -> Any:
    return random.uniform(1e4, 1e7) * (step >= random.integers(1, step.size))


def _teeth(random: Random, step: Any) -> Any:
    """Emptied when full, at a period of which there is one fall at least in what is seen."""
    period = random.integers(2, int(0.9 * step.size))
    return random.uniform(2e3, 1e6) * ((step + random.integers(period)) % period)


def _leak(random: Random, step: Any) -> Any:
    return random.uniform(4e3, 1e6) * step


def _late_leak(random: Random, step: Any) -> Any:
    return _warm_up(random, step) + random.uniform(2e4, 1e6) * step


def _slow_leak(random: Random, step: Any) -> Any:
    """Of tensors: something every few steps. Of the host: below what is called growth at once."""
    every = random.integers(2, max(3, step.size // 8))
    return random.uniform(100, 2_000) * every * (step // every)


def _leak_under_teeth(random: Random, step: Any) -> Any:
    period = random.integers(3, step.size // 5)
    size = random.uniform(2e4, 1e6)
    return size * ((step + random.integers(period)) % period) + 0.3 * size * step


KINDS: dict[str, Callable[[Random, Any], Any]] = {
    "none": _none,
    "warm-up": _warm_up,
    "filled cache": _filled,
    "one jump": _jump,
    "sawtooth": _teeth,
    "leak": _leak,
    "warm-up and leak": _late_leak,
    "slow leak": _slow_leak,
    "leak under a sawtooth": _leak_under_teeth,
}
GROWING = ("leak", "warm-up and leak", "slow leak", "leak under a sawtooth")


@dataclass(frozen=True)
class Rate:
    """Shares of a kind's series: growth where there is none, none where there is, and null."""

    series: int
    false: float
    missed: float
    unknown: float


def rates(meter: Meter, each: int, seed: int) -> dict[str, Rate]:
    random = np.random.default_rng(seed)
    return {kind: _rate(meter, kind, each, random) for kind in KINDS}


def _rate(meter: Meter, kind: str, each: int, random: Random) -> Rate:
    step = np.arange(STEPS[meter])
    found = []
    for _ in range(each):
        series = KINDS[kind](random, step)
        if meter == "host":
            series = series + PAGE * np.cumsum(random.random(step.size) < 0.002)
        shown = _pages(series) if meter == "host" else np.round(series).tolist()
        found.append(judge_series(shown, None, HOST if meter == "host" else TENSOR).bytes_per_step)
    grows = kind in GROWING
    return Rate(
        series=each,
        false=0.0 if grows else sum(bool(rate) for rate in found) / each,
        missed=sum(rate == 0 for rate in found) / each if grows else 0.0,
        unknown=sum(rate is None for rate in found) / each,
    )
