"""Cheap steps are repeated until growth is told from none; figures that contradict are not said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from runner.analysis import estimate, growth
from runner.analysis.growth import (
    HELD_STEPS,
    HOST,
    LEVEL_STEPS,
    ProcessGrowth,
    RiseWatch,
    judge_resident,
    judge_series,
)
from runner.facts import StepSeries
from runner.meters.host.timing import LeastSeries
from runner.records import COMPLETED, Trial
from tests.factories import completed, memory_trial, timing_trial

SPEC = completed().spec
MOST = 60_000
CHEAP, COSTLY = 15e-6, 5e-3
PAGE = 4096


def take_steps(after: Callable[[int], float], seconds: float, most: int = MOST) -> StepSeries:
    """Take steps as a timing trial does; `after` a step, that much is resident."""
    kept, watch, steps = LeastSeries(), RiseWatch(), 0
    while steps < most and (steps < 200 or watch.needs_more):
        kept.add(int(after(steps) // PAGE * PAGE))
        steps += 1
        if steps >= 200 and watch.is_due(steps):
            watch.look(steps, steps * seconds, judge_resident(kept.values, kept.stride, None))
    return StepSeries(
        seconds=(seconds,) * 200, host_bytes=tuple(kept.values), host_stride=kept.stride
    )


def judge_steps(steps: StepSeries) -> ProcessGrowth:
    found = growth.judge_host(Trial("timing", 0, COMPLETED, steps=steps))
    assert found is not None
    return found


@pytest.mark.parametrize("length", [16, 100, 250])
@pytest.mark.parametrize("size", [400, 4_000, 100_000])
def test_what_keeps_its_last_few_hundred_is_no_growth(length: int, size: int) -> None:
    steps = take_steps(lambda step: size * min(step, length), CHEAP)
    assert judge_steps(steps).bytes_per_step == 0


@pytest.mark.parametrize("leak", [64, 100, 1_000])
def test_a_small_leak_in_cheap_steps_is_found(leak: int) -> None:
    found = judge_steps(take_steps(lambda step: leak * step, CHEAP))
    assert found.bytes_per_step == pytest.approx(leak, rel=0.1)


def test_level_steps_are_not_taken_for_long() -> None:
    assert take_steps(lambda step: 5e6, CHEAP).host_steps <= 2 * LEVEL_STEPS
    assert take_steps(lambda step: 5e6, COSTLY).host_steps == 200


def test_a_rise_that_is_plain_is_not_taken_on_to_the_end_of_the_time() -> None:
    assert take_steps(lambda step: 10_000 * step, CHEAP).host_steps <= 2.5 * HELD_STEPS


def test_a_rise_must_hold_for_two_looks() -> None:
    watch = RiseWatch()
    watch.look(HELD_STEPS, 1.0, ProcessGrowth(10.0))
    assert watch.needs_more
    watch.look(HELD_STEPS, 1.0, ProcessGrowth(None))
    watch.look(HELD_STEPS, 1.0, ProcessGrowth(10.0))
    assert watch.needs_more
    watch.look(HELD_STEPS, 1.0, ProcessGrowth(10.0))
    assert not watch.needs_more


def test_looks_are_ever_further_apart() -> None:
    watch, looks = RiseWatch(), []
    for steps in range(200, MOST):
        if watch.is_due(steps):
            looks.append(steps)
            watch.look(steps, 1.0, ProcessGrowth(None))
    assert looks[:4] == [200, 400, 800, 1600]
    assert len(looks) < 10


@pytest.mark.parametrize("stride", [1, 8, 64])
def test_the_rate_and_the_bound_are_a_step_s_whatever_is_kept_of_the_series(stride: int) -> None:
    steps = np.arange(0, 400 * stride, stride)
    found = judge_series((2_000.0 * steps).tolist(), None, HOST, stride)
    assert found.bytes_per_step == pytest.approx(2_000)
    unsure = judge_series((300.0 * steps / stride).tolist(), None, HOST, stride)
    assert unsure.bytes_per_step is None
    assert unsure.at_most_bytes_per_step == pytest.approx(320 / stride, rel=0.05)


class TestUnderASawtooth:
    """Garbage goes now and then; what stays beside it may be less than a quarter of it."""

    def test_what_rises_from_trough_to_trough_is_the_growth(self) -> None:
        series = [8_000.0 * (step % 90) + 1_500 * step for step in range(400)]
        assert judge_series(series, None, HOST).bytes_per_step == pytest.approx(1_500)

    def test_what_rises_from_one_trough_to_the_last_is_bounded_and_not_0(self) -> None:
        series = [8_000.0 * (step % 90) + 1_500 * step for step in range(250)]
        found = judge_series(series[60:], None, HOST)
        assert found.bytes_per_step is None
        assert found.at_most_bytes_per_step is not None
        assert 1_500 <= found.at_most_bytes_per_step < 5_000

    def test_what_comes_back_to_where_it_was_is_0(self) -> None:
        series = [8_000.0 * (step % 90) for step in range(400)]
        assert judge_series(series, None, HOST).bytes_per_step == 0

    def test_garbage_that_is_freed_at_the_end_does_not_cover_what_was_kept(self) -> None:
        """2.7 kB a step stay; the rest was garbage, of which some went early."""
        resident = [8_000.0 * step - 600_000 * (step >= 250) for step in range(400)]
        found = judge_resident(resident, 1, None, collected=1_500_000.0)
        assert found.bytes_per_step is None
        assert found.at_most_bytes_per_step == pytest.approx(2_700, rel=0.25)

    def test_garbage_that_was_all_is_0(self) -> None:
        resident = [6_000.0 * step for step in range(400)]
        assert judge_resident(resident, 1, None, collected=399 * 6_000.0).bytes_per_step == 0


LEVEL = [4_000.0 * min(step, 16) for step in range(400)]
UNSURE = [4_000.0 * min(step, 16) + 100_000.0 * (step >= 330) for step in range(400)]
LEAK = [5_000.0 * step for step in range(400)]


class TestTensorsThatTheHostDoesNotBearOut:
    """A ring rises in the ten steps of a memory trial, and is level in the thousands beside it."""

    @staticmethod
    def estimate(*resident: list[float], device: str = "CPU:0") -> estimate.Estimate:
        memory = memory_trial(live_bytes=[4_000.0 * step for step in range(10)])
        memory.facts.device = device
        timed = [timing_trial([1e-5] * len(each), each) for each in resident]
        return estimate.estimate_metrics([memory, *timed], SPEC)

    def test_do_not_grow_where_it_is_level(self) -> None:
        found = self.estimate(LEVEL)
        assert found.metrics["tensor_growth_bytes_per_step"] == 0

    def test_are_bounded_by_it_where_it_is_not_known(self) -> None:
        found = self.estimate(UNSURE)
        assert found.metrics["tensor_growth_bytes_per_step"] is None
        reason = found.unavailable["tensor_growth_bytes_per_step"]
        assert reason.startswith("at most 523 B/step: they rose in 10 steps")

    def test_grow_where_it_grows_too(self) -> None:
        found = self.estimate(LEAK)
        assert found.metrics["tensor_growth_bytes_per_step"] == 4_000

    def test_grow_where_nothing_was_timed_or_too_little(self) -> None:
        assert self.estimate().metrics["tensor_growth_bytes_per_step"] == 4_000
        assert self.estimate(LEVEL[:20]).metrics["tensor_growth_bytes_per_step"] == 4_000

    def test_grow_on_a_card_which_resident_memory_does_not_show(self) -> None:
        found = self.estimate(LEVEL, device="GPU:0")
        assert found.metrics["tensor_growth_bytes_per_step"] == 4_000

    def test_are_judged_by_most_processes(self) -> None:
        found = self.estimate(LEVEL, LEAK, LEVEL)
        assert found.metrics["tensor_growth_bytes_per_step"] == 0
        found = self.estimate(LEAK, LEVEL, LEAK)
        assert found.metrics["tensor_growth_bytes_per_step"] == 4_000


def test_who_has_used_up_the_time_is_told_to_give_more() -> None:
    series = [100.0 * step for step in range(1_000)]
    found = estimate.estimate_metrics([timing_trial([1e-5] * 1_000, series)], SPEC)
    reason = found.unavailable["host_growth_bytes_per_step"]
    assert reason == (
        "at most 108 B/step: 1000 steps are too few to tell this growth from zero; "
        "say measure.steps=7900 measure.max_seconds=10"
    )
