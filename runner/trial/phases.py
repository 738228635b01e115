"""The phase loop: build, first call, steady steps, release, and what surrounds each of them.

Between steps and release Python's collector runs once, under a mark of its own: what it frees was
waiting for it, and is no growth.

The loop is a generator: it yields the phase that is to run, and is resumed when that has run. So
who runs it may be a loop that calls a step (`run_phases`), or a script in which a step ends:

    Phase          is to run now: resume with nothing when it has; with `VOID` where it was none
                   after all (it comes again), with `OVER` where the program has ended
    Rest.MORE      between two steps: resume when the next one begins, or with `OVER`
    Rest.WELCOME   the same, but the step may fail: it would tell more, and was not asked for
    Rest.ENOUGH    no more steps are needed: resume for the end, or with `MORE` for one more step

Who answers `MORE` to any of them takes as many steps as it likes, and is asked for none but those
that are needed.

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
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from runner.meters import collector
from runner.meters.clock import Clock
from runner.records import Phase
from runner.scenario import Program, Step


class Rest(Enum):
    """The phases' question between two steps."""

    MORE = auto()
    WELCOME = auto()
    ENOUGH = auto()


class Answer(Enum):
    """The answers that the phases may be resumed with."""

    VOID = auto()
    MORE = auto()
    OVER = auto()


Phases = Generator[Phase | Rest, Answer | None, Any]


class Meter(Protocol):
    """Reads before and after a span. `begin` may do anything before its last act, `end` after its
    first; `drop` ends a span that turned out to be none."""

    def begin(self, phase: Phase, step: int) -> None: ...

    def end(self, phase: Phase, step: int) -> None: ...

    def drop(self, phase: Phase, step: int) -> None: ...


@dataclass(frozen=True)
class StepLimits:
    """How many steady steps: `steps`, or as many as fit in `max_seconds`, but `min_steps` at
    least; `warmup_steps` come first and are counted in none of them."""

    warmup_steps: int
    steps: int
    min_steps: int
    max_seconds: float

    @property
    def most_steps(self) -> int:
        return self.warmup_steps + max(self.steps, self.min_steps)


def take_phases(
    meter: Meter,
    limits: StepLimits,
    settle: Callable[[], None],
    observe: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = Clock.seconds,
    needs_more: Callable[[int, float], bool] = lambda number, seconds: False,
) -> Phases:
    """Take one trial through its phases; returns the number of steps after the first call.

    `observe` is called twice outside every span: after the warm-up, and after the last step.
    `needs_more` is asked, once there are as many steps as the limits want, if one more would tell
    more; that goes on until the time is used up.
    """
    answer = yield from take_beginning(meter, settle)

    number, is_at_will = 0, False
    started = clock()
    while answer is not Answer.OVER:
        seconds = clock() - started
        has_time = seconds < limits.max_seconds
        wanted = limits.most_steps if has_time else limits.warmup_steps + limits.min_steps
        rest = Rest.MORE if number < wanted else Rest.ENOUGH
        if rest is Rest.ENOUGH and has_time and not is_at_will and needs_more(number, seconds):
            rest = Rest.WELCOME
        answer = yield rest
        is_at_will = answer is Answer.MORE
        if answer is Answer.OVER or (rest is Rest.ENOUGH and not is_at_will):
            break
        if number == limits.warmup_steps:
            observe()
            started = clock()
        answer = yield from take_span(Phase.STEPS, number, meter, settle)
        number += answer is None
    observe()

    meter.begin(Phase.COLLECTION, 0)
    collector.collect()
    settle()
    meter.end(Phase.COLLECTION, 0)
    yield from take_release(meter, settle)
    return number


def take_span(
    phase: Phase, number: int, meter: Meter, settle: Callable[[], None]
) -> Generator[Phase | Rest, Answer | None, Answer | None]:
    """Let a phase, or a step, run between the meter's readings; return what is said of it."""
    meter.begin(phase, number)
    answer = yield phase
    if answer is None or phase is Phase.BUILD:
        settle()
        meter.end(phase, number)
    else:
        meter.drop(phase, number)
    return answer


def take_beginning(
    meter: Meter, settle: Callable[[], None]
) -> Generator[Phase | Rest, Answer | None, Answer | None]:
    """Build, and call for the first time, until that was a step; return what is said of it."""
    answer: Answer | None = Answer.VOID
    while answer is Answer.VOID:
        answer = yield from take_span(Phase.BUILD, 0, meter, settle)
        if answer is not Answer.OVER:
            answer = yield from take_span(Phase.FIRST_CALL, 0, meter, settle)
    return answer


def take_release(
    meter: Meter, settle: Callable[[], None]
) -> Generator[Phase | Rest, Answer | None, None]:
    """Let every reference be dropped; what is left after that is retained."""
    meter.begin(Phase.RELEASE, 0)
    yield Phase.RELEASE
    gc.collect()
    settle()
    meter.end(Phase.RELEASE, 0)


def run_phases(build: Callable[[], Step | Program], phases: Phases) -> Any:
    """Build a step and call it for each of its phases; return what the phases return. A program
    runs by itself, and says of itself where it is."""
    advance = phases.send
    advance(None)
    step = build()
    if isinstance(step, Program):
        return step.run(phases)
    at, may_fail = advance(None), False
    while at is not Phase.RELEASE:
        answer = None
        if isinstance(at, Rest):
            may_fail = at is Rest.WELCOME
        else:
            try:
                step()
            except Exception:
                if not may_fail:
                    raise
                traceback.print_exc()  # its data may have come to an end
                answer = Answer.OVER
        at = advance(answer)
    del step, build
    try:
        advance(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a phase after the release")
