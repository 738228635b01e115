"""The phase loop, taken through its paces with a clock of our own and no TensorFlow."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from runner.records import Phase
from runner.scenario import Program
from runner.trial.phases import Answer, Phases, Rest, StepLimits, run_phases, take_phases

FEW = StepLimits(warmup_steps=1, steps=3, min_steps=2, max_seconds=100.0)


class Diary:
    """Notes everything that happens, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def begin(self, phase: Phase, step: int) -> None:
        self.events.append(f"begin {phase} {step}")

    def end(self, phase: Phase, step: int) -> None:
        self.events.append(f"end {phase} {step}")

    def drop(self, phase: Phase, step: int) -> None:
        self.events.append(f"drop {phase} {step}")

    def note(self, event: str) -> None:
        self.events.append(event)


class TickingClock:
    """Each reading is `tick` seconds after the one before."""

    def __init__(self, tick: float) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def go_through(build: Any, meter: Diary, *args: Any, **kwargs: Any) -> Any:
    return run_phases(build, take_phases(meter, *args, **kwargs))


def test_a_trial_goes_through_its_phases_in_order_and_settles_within_each_span() -> None:
    diary = Diary()

    def build() -> object:
        diary.note("build")
        return lambda: diary.note("step")

    limits = StepLimits(warmup_steps=0, steps=1, min_steps=1, max_seconds=100.0)
    go_through(build, diary, limits, lambda: diary.note("settle"))

    assert diary.events == [
        *("begin build 0", "build", "settle", "end build 0"),
        *("begin first_call 0", "step", "settle", "end first_call 0"),
        *("begin steps 0", "step", "settle", "end steps 0"),
        *("begin collection 0", "settle", "end collection 0"),
        *("begin release 0", "settle", "end release 0"),
    ]


def test_the_warm_up_comes_on_top_of_the_steps_asked_for() -> None:
    assert go_through(lambda: lambda: None, Diary(), FEW, lambda: None) == 1 + 3


def test_slow_steps_end_when_the_time_is_used_up_but_not_before_the_fewest() -> None:
    limits = StepLimits(warmup_steps=0, steps=100, min_steps=4, max_seconds=1.0)
    steps = go_through(
        lambda: lambda: None, Diary(), limits, lambda: None, clock=TickingClock(tick=10.0)
    )
    assert steps == 4


def test_the_graph_is_observed_after_the_warm_up_and_after_the_last_step() -> None:
    diary = Diary()
    go_through(
        lambda: lambda: None, diary, FEW, lambda: None, observe=lambda: diary.note("observe")
    )
    observed = [index for index, event in enumerate(diary.events) if event == "observe"]
    assert [diary.events[index - 1] for index in observed] == ["end steps 0", "end steps 3"]


def test_a_steps_result_is_gone_before_the_step_ends() -> None:
    class Result:
        pass

    alive: list[weakref.ref[Result]] = []
    counts: list[int] = []

    def step() -> Result:
        result = Result()
        alive.append(weakref.ref(result))
        return result

    class Counting(Diary):
        def end(self, phase: Phase, step: int) -> None:
            counts.append(sum(1 for each in alive if each() is not None))

    go_through(lambda: step, Counting(), FEW, lambda: None)
    assert len(alive) == 1 + 1 + 3
    assert set(counts) == {0}


def test_release_drops_what_the_step_held_even_in_a_cycle() -> None:
    class Held:
        def __init__(self) -> None:
            self.itself = self

    kept: list[weakref.ref[Held]] = []

    def build() -> object:
        held = Held()
        kept.append(weakref.ref(held))
        return lambda: held and None

    gc.disable()
    try:
        go_through(build, Diary(), FEW, lambda: None)
        assert kept[0]() is None
    finally:
        gc.enable()


def test_an_exception_in_a_step_leaves_the_loop_with_its_phase_open() -> None:
    diary = Diary()
    with pytest.raises(ZeroDivisionError):
        go_through(lambda: lambda: 1 // 0, diary, FEW, lambda: None)
    assert diary.events[-1] == "begin first_call 0"


LIMITS = StepLimits(warmup_steps=0, steps=2, min_steps=2, max_seconds=100.0)


def run_program(run: Callable[[Phases], Any]) -> list[str]:
    diary = Diary()
    go_through(lambda: Program(run), diary, LIMITS, lambda: None)
    return [event for event in diary.events if "collection" not in event]


def test_a_program_says_when_each_step_begins_and_ends() -> None:
    seen: list[Any] = []

    def run(phases: Phases) -> None:
        seen.extend(phases.send(None) for _ in range(7))
        assert next(phases, None) is None

    assert run_program(run) == [
        *("begin build 0", "end build 0", "begin first_call 0", "end first_call 0"),
        *("begin steps 0", "end steps 0", "begin steps 1", "end steps 1"),
        *("begin release 0", "end release 0"),
    ]
    steps = [Phase.STEPS, Rest.MORE, Phase.STEPS, Rest.ENOUGH, Phase.RELEASE]
    assert seen == [Phase.FIRST_CALL, Rest.MORE, *steps]


def test_a_program_that_ends_leaves_its_open_step_uncounted() -> None:
    def run(phases: Phases) -> Any:
        for answer in (None, None, None, None, None, Answer.OVER):
            phase = phases.send(answer)
        assert phase is Phase.RELEASE
        with pytest.raises(StopIteration) as ended:
            phases.send(None)
        return ended.value.value

    diary = Diary()
    assert go_through(lambda: Program(run), diary, LIMITS, lambda: None) == 1
    assert "drop steps 1" in diary.events
    assert "end steps 1" not in diary.events


def test_a_program_without_steps_is_all_build() -> None:
    def run(phases: Phases) -> None:
        assert phases.send(Answer.OVER) is Phase.RELEASE
        phases.close()

    assert run_program(run) == ["begin build 0", "end build 0", "begin release 0"]


def test_what_was_taken_for_the_first_step_and_is_none_leads_back_to_the_build() -> None:
    def run(phases: Phases) -> None:
        assert phases.send(None) is Phase.FIRST_CALL
        assert phases.send(Answer.VOID) is Phase.BUILD
        phases.close()

    assert run_program(run) == [
        *("begin build 0", "end build 0", "begin first_call 0", "drop first_call 0"),
        "begin build 0",
    ]


def test_a_program_may_take_more_steps_than_are_needed() -> None:
    def run(phases: Phases) -> None:
        while phases.send(None) is not Rest.ENOUGH:
            pass
        assert phases.send(Answer.MORE) is Phase.STEPS
        assert phases.send(None) is Rest.ENOUGH
        phases.close()

    assert run_program(run)[-2:] == ["begin steps 2", "end steps 2"]
