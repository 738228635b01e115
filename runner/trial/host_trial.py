"""Run a host trial: what grows on the host from step to step, and who holds it. Child side.

    build  first call  3 steps | 3 to 400 steps          | 3 to 400 steps            | release
                               | every allocation traced | between two looks: at     |
                               | (`survivors`): how much | Python's objects          |
                               | stays, of what kind,    | (`holders`), at threads'  |
                               | from which line         | stacks, at data pipelines |

No step is timed. What recurs shows in each of them, so a hundred are enough; of slow ones three,
which name what grows and leave it to the timing trials to say that it goes on. Where something rare
was seen once or twice (an evaluation, a checkpoint), more are traced, until it was seen three times
or the time is over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from runner.errors import RunnerError
from runner.facts import MOST_RARE_STEPS, MOST_TRACED_STEPS, HostFindings
from runner.meters import collector
from runner.meters.clock import Clock
from runner.meters.host.holders import HolderSearch
from runner.meters.host.mappings import MappingMeter
from runner.meters.host.pipelines import PipelineMeter
from runner.meters.host.rare_events import RareEvents
from runner.meters.host.resources import ResourceMeter
from runner.meters.host.survivors import SurvivorMeter
from runner.meters.host.threads import ThreadMeter
from runner.meters.tensor.allocator import EXACT_ALLOCATOR
from runner.records import Phase, TrialResult
from runner.trial.phases import (
    Answer,
    Meter,
    Phases,
    Rest,
    run_phases,
    take_beginning,
    take_release,
    take_span,
)
from runner.trial.setup import PreparedTrial, TrialSetup

WARMUP_STEPS = 3
LEAST_STEPS = 3
BUSY = 4.0
"""Wall-clock limit as a multiple of CPU time, so that a busy machine does not change the number of
steps."""


class _SilentMeter:
    """A meter that reads nothing."""

    def begin(self, phase: Phase, step: int) -> None: ...

    def end(self, phase: Phase, step: int) -> None: ...

    def drop(self, phase: Phase, step: int) -> None: ...


def prepare(setup: TrialSetup) -> PreparedTrial:
    if setup.experiment.device.memory_limit_mb is None:
        # Under it, tensors lie in regions that TensorFlow takes ahead, at no line of the user's.
        os.environ.pop(EXACT_ALLOCATOR, None)
    survivors = SurvivorMeter()
    meter = setup.announce(_SilentMeter())
    made: list[Any] = []

    def build() -> Any:
        made.append(setup.build())
        return made[-1]

    def finish(held: HostFindings) -> TrialResult:
        setup.facts.held, setup.facts.unavailable = held, {}
        return TrialResult(facts=setup.facts)

    limit = setup.experiment.measure.max_seconds
    phases = take_phases(made, meter, survivors, setup.device.settle, limit)
    return PreparedTrial(partial(run_phases, build, phases), finish)


def take_phases(
    made: list[Any],
    meter: Meter,
    survivors: SurvivorMeter,
    settle: Callable[[], None],
    most_seconds: float,
) -> Phases:
    """Take a host trial through its phases; returns what was found, as the record keeps it. `made`
    has the step, once it is built. Traced steps have `most_seconds`, those between two looks half
    of it."""
    number, is_over = 0, False

    def take_step() -> Generator[Phase | Rest, Answer | None, bool]:
        """Return whether there was one more."""
        nonlocal number, is_over
        if is_over:
            return False
        answer = yield Rest.MORE
        while answer is not Answer.OVER:
            answer = yield from take_span(Phase.STEPS, number, meter, settle)
            if answer is None:
                number += 1
                return True
        is_over = True
        return False

    threads, pipelines, holders = ThreadMeter(), PipelineMeter(), HolderSearch()
    mappings, resources = MappingMeter(), ResourceMeter()
    events = RareEvents()
    survivors.start()
    is_over = (yield from take_beginning(meter, settle)) is Answer.OVER
    for _ in range(WARMUP_STEPS):
        yield from take_step()
    threads.mark()
    resources.mark()
    survivors.mark()
    traced, seconds, limit = 0, 0.0, _TimeLimit(most_seconds)
    most = MOST_TRACED_STEPS
    while limit.allows(traced, most):
        began = Clock.seconds()
        collector.collect()  # empties free lists, in which a step would find memory of our own
        if not (yield from take_step()):
            break
        seconds += Clock.seconds() - began
        threads.mark()
        resources.mark()
        survivors.mark()
        events.note()
        traced += 1
        if traced >= MOST_TRACED_STEPS:
            most = MOST_RARE_STEPS if events.may_recur() else MOST_TRACED_STEPS
    survivors.stop()
    if not traced:
        raise RunnerError(
            f"the program ended after {number} step{'s' * (number != 1)}; to say who holds what "
            f"grows takes {WARMUP_STEPS + 2 * LEAST_STEPS}.",
            "Let it take more of them.",
        )
    survived = survivors.read()

    pipelines.look()
    threads.look()
    holders.begin()
    mappings.mark()
    more, limit = 0, _TimeLimit(most_seconds / 2)
    while limit.allows(more, max(traced, LEAST_STEPS)):
        if not (yield from take_step()):
            break
        more += 1
        mappings.mark()
    state = collector.read_state()
    containers, functions = holders.end(more, made[-1], survived)
    pipelines.look()
    threads.look()

    is_wanted: Answer | None = Answer.OVER if is_over else (yield Rest.ENOUGH)
    while is_wanted is Answer.MORE:
        if (yield from take_span(Phase.STEPS, number, meter, settle)) is Answer.OVER:
            break
        is_wanted = yield Rest.ENOUGH
    made.clear()
    yield from take_release(meter, settle)
    return HostFindings(
        steps=traced,
        traced_seconds_per_step=seconds / traced,
        survivors=(*threads.find_survivors(), *survived),
        pipelines=pipelines.list_buffers(),
        containers=containers,
        functions=functions,
        mappings=mappings.list_growing(),
        resources=resources.list_open(),
        collector=state,
    )


class _TimeLimit:
    """Time for some steps, from now on: of computing, and a multiple of it by the clock."""

    def __init__(self, seconds: float) -> None:
        self._computed = Clock.computed_seconds() + seconds
        self._at = Clock.seconds() + BUSY * seconds

    def allows(self, steps: int, most: int) -> bool:
        """Return True if one more step is to be taken after so many."""
        has_time = Clock.computed_seconds() < self._computed and Clock.seconds() < self._at
        return steps < LEAST_STEPS or (steps < most and has_time)
