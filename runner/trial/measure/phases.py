"""The phase loop: build, first call, steady steps, release, and what surrounds each of them.

Between steps and release Python's collector runs once, under a mark of its own: what it frees was
waiting for it, and is no growth.

Core: standard library only; the clock, the meter and the step are passed in, so every line of it
is tested without TensorFlow. Why a number can be trusted:

- The clock is read last before a span and first after it; every other reading lies outside.
- The device has finished all work before the clock is read (`settle`).
- A step's result is dropped within the step: it is gone before live bytes are read, and dropping
  it is paid for by the step that made it, as in any loop that does not keep it.
- Nothing is decided while a span runs: how many steps there will be is decided between steps.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from runner.records import Phase
from runner.scenario import Step


class Meter(Protocol):
    """Reads before and after a span. `begin` may do anything before its last act, `end` after its
    first."""

    def begin(self, phase: Phase, step: int) -> None: ...

    def end(self, phase: Phase, step: int) -> None: ...


@dataclass(frozen=True)
class Limits:
    """How many steady steps: `steps`, or as many as fit in `max_seconds`, but `min_steps` at
    least; `warmup_steps` come first and are counted in none of them."""

    warmup_steps: int
    steps: int
    min_steps: int
    max_seconds: float

    @property
    def most_steps(self) -> int:
        return self.warmup_steps + max(self.steps, self.min_steps)


def go_through(
    build: Callable[[], Step],
    meter: Meter,
    limits: Limits,
    settle: Callable[[], None],
    observe: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """Take one trial through its phases; returns the number of steps after the first call.

    `observe` is called twice outside every span: after the warm-up, and after the last step.
    """
    meter.begin(Phase.BUILD, 0)
    step = build()
    settle()
    meter.end(Phase.BUILD, 0)

    meter.begin(Phase.FIRST_CALL, 0)
    step()
    settle()
    meter.end(Phase.FIRST_CALL, 0)

    number = 0
    started = clock()
    while _goes_on(number, clock() - started, limits):
        if number == limits.warmup_steps:
            observe()
            started = clock()
        meter.begin(Phase.STEPS, number)
        step()
        settle()
        meter.end(Phase.STEPS, number)
        number += 1
    observe()

    meter.begin(Phase.COLLECTION, 0)
    if gc.isenabled():  # who switched it off keeps its garbage
        gc.collect()
    settle()
    meter.end(Phase.COLLECTION, 0)

    meter.begin(Phase.RELEASE, 0)
    del step, build
    gc.collect()
    settle()
    meter.end(Phase.RELEASE, 0)
    return number


def _goes_on(number: int, seconds: float, limits: Limits) -> bool:
    steady = number - limits.warmup_steps
    if steady < limits.min_steps:
        return True
    return steady < limits.steps and seconds < limits.max_seconds
