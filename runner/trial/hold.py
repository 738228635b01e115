"""A host trial: what grows on the host from step to step, and who holds it. Child side.

First some steps under a tracer of every allocation (`survivors`), which says how much stays, of
what kind and from which line; then some more without it, between two looks at Python's objects
(`holders`), which say what holds it, and two at the buffers of data pipelines. Neither is timed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from runner.records import Phase
from runner.scenario import Step
from runner.trial.measure.holders import Holders
from runner.trial.measure.phases import Meter
from runner.trial.measure.pipelines import Pipelines
from runner.trial.measure.survivors import Survivors
from runner.trial.measure.threads import Threads

WARMUP_STEPS = 3
MOST_STEPS = 100
LEAST_STEPS = 8
MOST_SECONDS = 15.0
"""Of traced steps: what recurs shows in each of them, so a few dozen are enough."""


def go_through(
    build: Callable[[], Step],
    meter: Meter,
    survivors: Survivors,
    settle: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """The trial's phases; what was found, as the record keeps it."""

    def spans(phase: Phase, number: int, function: Callable[[], Any]) -> Any:
        meter.begin(phase, number)
        result = function()
        settle()
        meter.end(phase, number)
        return result

    survivors.start()
    step = spans(Phase.BUILD, 0, build)
    spans(Phase.FIRST_CALL, 0, partial(_once, step))
    number = 0
    for _ in range(WARMUP_STEPS):
        spans(Phase.STEPS, number, partial(_once, step))
        number += 1
    threads = Threads()
    threads.mark()
    survivors.mark()
    traced, started, seconds = 0, clock(), 0.0
    while traced < LEAST_STEPS or (traced < MOST_STEPS and clock() - started < MOST_SECONDS):
        began = clock()
        if gc.isenabled():  # it empties free lists, in which a step would find memory of our own
            gc.collect()
        spans(Phase.STEPS, number, partial(_once, step))
        seconds += clock() - began
        threads.mark()
        survivors.mark()
        number += 1
        traced += 1
    survivors.stop()
    survived = survivors.read()

    pipelines = Pipelines()
    pipelines.look()
    threads.look()
    holders = Holders()
    holders.begin()
    more, started = 0, clock()
    while more < LEAST_STEPS or (more < MOST_STEPS and clock() - started < MOST_SECONDS / 3):
        spans(Phase.STEPS, number, partial(_once, step))
        number += 1
        more += 1
    found = holders.end(more, step)
    pipelines.look()
    threads.look()

    meter.begin(Phase.RELEASE, 0)
    del step, build
    gc.collect()
    settle()
    meter.end(Phase.RELEASE, 0)
    return {
        "steps": traced,
        "traced_seconds_per_step": seconds / traced,
        "survivors": [*threads.to_json(), *survived],
        "pipelines": pipelines.to_json(),
        **found,
    }


def _once(step: Step) -> None:
    """Its result is dropped within."""
    step()
