"""Steps beyond those that are asked for: taken while they would tell more, and never to the harm of
the trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.records import Phase
from runner.scenario import Program
from runner.script.marks import MaxSteps, ScriptStopped, StepKind, StepMarks
from runner.trial.phases import Rest, StepLimits, run_phases, take_phases

LIMITS = StepLimits(warmup_steps=1, steps=3, min_steps=2, max_seconds=100.0)


class SilentMeter:
    def begin(self, phase: Phase, step: int) -> None: ...

    def end(self, phase: Phase, step: int) -> None: ...

    def drop(self, phase: Phase, step: int) -> None: ...


def phases(
    needs_more: Callable[[int, float], bool], limits: StepLimits = LIMITS, **more: Any
) -> Any:
    return take_phases(SilentMeter(), limits, lambda: None, needs_more=needs_more, **more)


def count_steps(needs_more: Callable[[int, float], bool], **more: Any) -> Any:
    return run_phases(lambda: lambda: None, phases(needs_more, **more))


def test_steps_go_on_while_more_of_them_are_needed() -> None:
    assert count_steps(lambda number, seconds: number < 30) == 30


def test_nobody_asks_before_the_steps_that_are_wanted_are_there() -> None:
    asked: list[int] = []

    def needs_more(number: int, seconds: float) -> bool:
        asked.append(number)
        return number < 6

    assert count_steps(needs_more) == 6
    assert asked == [4, 5, 6]


def test_they_end_when_the_time_is_used_up() -> None:
    readings = iter(range(10_000))
    limits = StepLimits(warmup_steps=1, steps=3, min_steps=2, max_seconds=20.0)
    steps = count_steps(
        lambda number, seconds: True, limits=limits, clock=lambda: float(next(readings))
    )
    assert 3 < steps < 25


def test_a_step_that_fails_beyond_those_that_were_wanted_ends_them() -> None:
    """Its data may have come to an end: 1 first call and 7 steps there are."""
    left = iter(range(8))
    assert run_phases(lambda: lambda: next(left), phases(lambda number, seconds: True)) == 7


def test_a_step_that_fails_among_those_that_were_wanted_fails_the_trial() -> None:
    left = iter(range(4))
    with pytest.raises(StopIteration):
        run_phases(lambda: lambda: next(left), phases(lambda number, seconds: True))


@pytest.mark.parametrize(("max_steps", "taken"), [("measured", 51), (20, 20), (None, 100)])
def test_a_program_that_takes_as_many_steps_as_it_likes_is_asked_for_no_more(
    max_steps: MaxSteps, taken: int
) -> None:
    asked: list[int] = []

    def needs_more(number: int, seconds: float) -> bool:
        asked.append(number)
        return number < 50

    def run(phases: Any) -> int:
        marks = StepMarks(phases, max_steps)
        try:
            for _ in range(100):
                marks.begin(StepKind.NAMED)
                marks.end(StepKind.NAMED, "step")
        except ScriptStopped:
            pass
        marks.finish()
        with pytest.raises(StopIteration):
            phases.send(None)
        return marks.steps

    assert run_phases(lambda: Program(run), phases(needs_more)) == taken
    assert bool(asked) is (taken == 51)


def test_steps_beyond_those_that_were_wanted_are_welcome() -> None:
    going = phases(lambda number, seconds: True)
    seen = []
    at = going.send(None)
    for _ in range(16):
        seen.append(at)
        at = going.send(None)
    rests = [each for each in seen if isinstance(each, Rest)]
    assert rests == [Rest.MORE] * 4 + [Rest.WELCOME] * 3
