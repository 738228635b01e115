"""Growth is what stays: bytes a step after the warm-up, told from warm-ups, teeth and jumps."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from runner.analysis import estimate, growth
from runner.analysis.growth import HOST, TENSOR, judge_series
from runner.facts import CleanReadings, MallocBooks
from runner.records import Trial
from tests.factories import MEASURE, completed, memory_trial, timing_trial
from tests.unit.analysis import made_programs
from tests.unit.analysis import made_series as made

SPEC = completed().spec


def tensors(*live: float) -> float | None:
    return judge_series(live, None, TENSOR).bytes_per_step


def host(*trials: Trial) -> float | None:
    return estimate.estimate_metrics(trials, SPEC).metrics["host_growth_bytes_per_step"]


def books(in_use: Callable[[int], int]) -> MallocBooks:
    """Malloc's, of 205 steps."""
    steps = (*range(32), *range(32, 205, 8))
    return MallocBooks(steps, tuple(map(in_use, steps)), (0,) * len(steps))


class TestTensors:
    def test_what_cannot_be_bounded_has_no_bound(self) -> None:
        """Level but for a dip and a fall at the end, as where a data pipeline runs out."""
        live = [3_825_276.0] * 40
        live[37:] = [3_787_132, 3_785_852, 3_784_572]
        live[25] -= 1_280
        found = judge_series(live, None, TENSOR)
        assert found.at_most_bytes_per_step is None or np.isfinite(found.at_most_bytes_per_step)

    def test_a_kept_vector_grows_by_exactly_its_bytes(self) -> None:
        assert tensors(*(40_000 + 31_108 * step for step in range(5))) == 31_108

    def test_a_leak_in_every_second_step_is_growth(self) -> None:
        assert tensors(*(1_000 * (step // 2) for step in range(10))) == pytest.approx(500, rel=0.1)

    @pytest.mark.parametrize(
        "live",
        [
            [40, 70, 70, 70, 70],
            [0, 1, 2, 3, 4, 5, 5, 5, 5, 5],
            [40, 44, 40, 44, 40, 44, 44, 40],
            [100, 90, 80, 70, 60],
            [7, 7],
        ],
        ids=["kept once", "a warm-up that has ended", "moves about", "shrinks", "two alike"],
    )
    def test_what_settles_falls_or_moves_about_does_not_grow(self, live: list[float]) -> None:
        assert tensors(*live) == 0

    def test_two_rises_that_differ_by_a_scalar_are_growth_not_one_jump(self) -> None:
        rises = [100_352, 100_248, 100_352]
        assert tensors(*np.cumsum([354_048, *rises])) == pytest.approx(100_300, abs=60)

    @pytest.mark.parametrize(
        "live",
        [[0, 0, 0, 10, 10], [0, 8, 12, 14, 15], [1, 2, 3], [1]],
        ids=["one jump, late", "dying down", "three steps", "one step"],
    )
    def test_a_rise_that_may_be_the_last_one_is_unknown(self, live: list[float]) -> None:
        found = judge_series(live, None, TENSOR)
        assert found.bytes_per_step is None
        assert found.steps_needed is not None
        assert found.steps_needed > len(live)

    def test_garbage_that_pythons_collector_frees_is_a_sawtooth_and_no_growth(self) -> None:
        piled = [4_000.0 * step for step in range(1, 11)]
        found = judge_series([880 + bytes_ for bytes_ in piled], piled, TENSOR)
        assert found.bytes_per_step == 0
        assert (found.sawtooth_bytes, found.collected_bytes) == (40_000, 40_000)
        assert growth.describe_sawtooth([found]) == (
            "a sawtooth, 40.0 kB high at the peak of garbage that waits for Python's collector"
        )

    def test_what_stays_beside_garbage_is_the_growth(self) -> None:
        piled = [4_000.0 * step for step in range(10)]
        live = [bytes_ + 100 * step for step, bytes_ in enumerate(piled)]
        assert judge_series(live, piled, TENSOR).bytes_per_step == 100

    def test_a_cache_that_is_emptied_is_a_sawtooth(self) -> None:
        found = judge_series([4_000.0 * (step % 7) for step in range(40)], None, TENSOR)
        assert (found.bytes_per_step, found.sawtooth_bytes) == (0, 24_000)

    def test_under_a_sawtooth_a_leak_is_measured_from_trough_to_trough(self) -> None:
        live = [4_000.0 * (step % 7) + 900 * step for step in range(80)]
        assert tensors(*live) == pytest.approx(900)

    def test_one_process_that_grows_is_enough(self) -> None:
        flat, growing = memory_trial(), memory_trial(live_bytes=[10, 20, 30, 40, 50], index=1)
        found = estimate.estimate_metrics([flat, growing], SPEC)
        assert found.metrics["tensor_growth_bytes_per_step"] == 10

    def test_the_reason_says_how_many_steps_would_tell(self) -> None:
        found = estimate.estimate_metrics([memory_trial(live_bytes=[0, 0, 0, 10, 10])], SPEC)
        assert found.metrics["tensor_growth_bytes_per_step"] is None
        reason = found.unavailable["tensor_growth_bytes_per_step"]
        assert reason.endswith("say measure.memory_steps=10")


class TestHost:
    def test_a_leak_of_17_kb_a_step_is_seen_in_200_steps(self) -> None:
        random = np.random.default_rng(1)
        series = (made.resident(random, leak=17e3, jumps=0.5) for _ in range(200))
        found = [judge_series(one, None, HOST).bytes_per_step for one in series]
        seen = [rate for rate in found if rate]
        assert len(seen) >= 180
        assert found.count(0) <= 2
        assert statistics.median(seen) == pytest.approx(17e3, rel=0.1)

    @pytest.mark.parametrize("steps", [100, 200])
    def test_a_leak_that_comes_in_stairs_is_seen(self, steps: int) -> None:
        stairs = [200_000.0 * (step // 12) for step in range(steps)]
        assert judge_series(stairs, None, HOST).bytes_per_step == pytest.approx(
            200_000 / 12, rel=0.15
        )

    @pytest.mark.parametrize("steps", [30, 200, 400])
    @pytest.mark.parametrize("jumps", [0.0, 0.5, 1.0])
    def test_a_warm_up_that_levels_off_is_no_growth(self, jumps: float, steps: int) -> None:
        random = np.random.default_rng(2)
        found = [
            judge_series(made.resident(random, steps, jumps=jumps), None, HOST) for _ in range(500)
        ]
        assert sum((one.bytes_per_step or 0) > 0 for one in found) < 5

    @pytest.mark.parametrize("phase", range(0, 90, 10))
    def test_a_cache_of_90_arrays_that_is_emptied_when_full_is_no_growth(self, phase: int) -> None:
        series = [480_000.0 * ((step + phase) % 90) for step in range(200)]
        found = judge_series(series, None, HOST)
        assert found.bytes_per_step == 0
        assert found.sawtooth_bytes == pytest.approx(89 * 480_000)

    @pytest.mark.parametrize("leak", [100, 1_000])
    def test_a_leak_below_what_malloc_leaps_by_is_unknown_with_the_steps_it_takes(
        self, leak: int
    ) -> None:
        pages = [4096.0 * (leak * step // 4096) for step in range(200)]
        found = judge_series(pages, None, HOST)
        assert found.bytes_per_step is None
        assert found.steps_needed is not None
        longer = [4096.0 * (leak * step // 4096) for step in range(found.steps_needed)]
        assert judge_series(longer, None, HOST).bytes_per_step == pytest.approx(leak, rel=0.1)

    def test_garbage_that_is_freed_at_the_end_is_no_growth(self) -> None:
        trial = timing_trial([0.001] * 200, [4_000.0 * step for step in range(200)])
        trial.facts.host_collected_bytes = 199 * 4_000
        assert host(trial) == 0

    def test_a_rise_that_ends_when_garbage_goes_is_unknown_not_growth(self) -> None:
        """Malloc keeps what was freed, so resident memory only stops to rise, at step 186."""
        resident = [8_192.0 * min(step, 186) for step in range(205)]
        trial = timing_trial([0.001] * 205, resident)
        trial.facts.malloc = books(lambda step: 8_000 * (step if step < 186 else step - 186))
        found = growth.judge_host(trial)
        assert found is not None
        assert found.bytes_per_step is None
        assert found.steps_needed == 410
        assert type(found.at_most_bytes_per_step) is float  # one of NumPy's can't be written

    def test_a_leak_into_what_malloc_had_free_is_unknown_not_none(self) -> None:
        trial = timing_trial([0.001] * 205, [4_500_000.0] * 205)
        trial.facts.malloc = books(lambda step: 8_000 * step)
        found = growth.judge_host(trial)
        assert found is not None
        assert found.bytes_per_step is None
        assert found.at_most_bytes_per_step == pytest.approx(8_000, rel=0.1)

    def test_garbage_that_was_freed_early_and_kept_by_malloc_is_no_growth(self) -> None:
        """The collector ran at step 24, and then at the end, when a part of what it freed stayed
        resident: of the rise since, more than all steps' even share of it was garbage."""
        resident = [50_000.0 * (step if step < 24 else max(24, step - 24)) for step in range(205)]
        trial = timing_trial([0.001] * 205, resident)
        trial.facts.malloc = books(lambda step: 50_000 * (step if step < 24 else step - 24))
        trial.facts.host_collected_bytes = 176 * 50_000
        assert host(trial) == 0

    def test_garbage_without_clean_readings_is_unknown_and_bounded(self) -> None:
        """Of 20 kB a step half stays, and nobody knows when the rest piled up."""
        trial = timing_trial([0.001] * 205, [20_000.0 * step for step in range(205)])
        trial.facts.host_collected_bytes = 10_000 * 204
        found = growth.judge_host(trial)
        assert found is not None
        assert found.bytes_per_step is None
        assert found.at_most_bytes_per_step == pytest.approx(10_000, rel=0.05)

    def test_what_is_unknown_is_bounded(self) -> None:
        pages = [4096.0 * (100 * step // 4096) for step in range(200)]
        found = judge_series(pages, None, HOST)
        assert found.bytes_per_step is None
        assert found.at_most_bytes_per_step is not None
        assert 100 <= found.at_most_bytes_per_step < 150

    def test_a_rise_of_a_byte_in_many_thousand_steps_is_level_and_a_leak_is_not(self) -> None:
        stride = 2000
        jump = [4e6] * 40 + [4e6 + 60_000.0] * 20
        found = judge_series(jump, None, HOST, stride)
        assert found.bytes_per_step == 0
        assert found.at_most_bytes_per_step is not None
        assert 1.0 < found.at_most_bytes_per_step < 1.5
        kept = [4e6 + 4096.0 * (10 * stride * point // 4096) for point in range(60)]
        assert judge_series(kept, None, HOST, stride).bytes_per_step == pytest.approx(10, rel=0.05)
        assert judge_series(jump, None, TENSOR, stride).bytes_per_step is None

    def test_most_processes_must_show_it(self) -> None:
        random = np.random.default_rng(3)
        leaks = [made.resident(random, leak=17e3) for _ in range(2)]
        flat = made.resident(random)
        trials = [timing_trial([0.001] * 200, series) for series in (*leaks, flat)]
        assert host(*trials) == pytest.approx(17e3, rel=0.1)
        assert host(*trials[1:]) == 0

    @pytest.mark.parametrize(
        ("steps", "seconds", "known"),
        [
            (200, 0.001, True),
            (199, 0.001, False),
            (30, 10 / 30, True),
            (30, 0.1, False),
            (29, 1.0, False),
        ],
    )
    def test_it_takes_200_steps_or_10_seconds_and_never_fewer_than_30(
        self, steps: int, seconds: float, known: bool
    ) -> None:
        assert (host(timing_trial([seconds] * steps)) == 0) is known

    def test_too_few_steps_are_null_and_say_what_to_do(self) -> None:
        found = estimate.estimate_metrics([timing_trial([0.01] * 12)], SPEC)
        assert found.metrics["host_growth_bytes_per_step"] is None
        reason = found.unavailable["host_growth_bytes_per_step"]
        assert "12 steps in 0.12 s" in reason
        assert "measure=standard" in reason

    def test_whoever_said_standard_is_told_more(self) -> None:
        spec = replace(SPEC, measure=replace(MEASURE, name="standard"))
        found = estimate.estimate_metrics([timing_trial([0.01] * 12)], spec)
        assert "measure.steps=200" in found.unavailable["host_growth_bytes_per_step"]


class TestRates:
    """Over made series of every kind: how often growth is false, and missed."""

    @pytest.mark.parametrize("meter", ["tensor", "host"])
    def test_false_and_missed_growth_are_rare(self, meter: made.Meter) -> None:
        rates = made.rates(meter, each=100, seed=11)
        for kind, rate in rates.items():
            wrong = rate.missed if kind in made.GROWING else rate.false
            assert wrong <= 0.03, (kind, rate)
            assert rate.unknown <= 0.6 or (meter, kind) == ("host", "slow leak"), (kind, rate)


def test_a_very_long_series_is_thinned_and_keeps_its_slope() -> None:
    assert growth.compute_slope([3.0 * step for step in range(100_000)]) == 3.0


def test_the_slope_is_theil_and_sens() -> None:
    from scipy.stats import theilslopes

    series = np.random.default_rng(4).normal(size=60) + 0.03 * np.arange(60)
    assert growth.compute_slope(series.tolist()) == pytest.approx(theilslopes(series).slope)


# Of a step that builds and fits a new Keras model, in pages: what was resident after each of 32 in
# a trial that let garbage pile up; and in one with clean readings before each from the third on,
# with what these were.
KERAS_UNCLEAN = (
    7279, 9185, 11094, 12954, 14858, 16750, 18640, 16117, 15698, 17514, 19354, 21228, 23120,
    25013, 26909, 27656, 24439, 25796, 27606, 29458, 31350, 33240, 35133, 37064, 36567, 36695,
    35216, 36989, 38845, 40717, 42613, 44484,
)  # fmt: skip
KERAS_COLLECTED = 27_317_952
KERAS_RESIDENT = (
    7718, 9863, 8772, 9908, 11094, 12281, 13459, 14632, 15822, 17011, 18204, 19401, 20600, 21793,
    22973, 24151, 25339, 26520, 27768, 28943, 30137, 31314, 32503, 33681, 34926, 36087, 37289,
    38472, 39662, 40844, 42027, 43211,
)  # fmt: skip
KERAS_READINGS = (
    7392, 8043, 9172, 10338, 11526, 12708, 13882, 15071, 16262, 17448, 18644, 19825, 21035, 22217,
    23383, 24580, 25763, 27001, 28180, 29374, 30555, 31733, 32918, 34148, 35326, 36525, 37713,
    38895, 40065, 41260,
)  # fmt: skip
KERAS_GARBAGE = (
    2004, 729, 736, 756, 755, 751, 750, 751, 749, 756, 757, 775, 758, 756, 768, 759, 757, 767,
    763, 763, 759, 770, 763, 778, 761, 764, 759, 767, 779, 767,
)  # fmt: skip
KERAS_CLEAN = CleanReadings(
    tuple(range(2, 32)),
    tuple(made.PAGE * pages for pages in KERAS_READINGS),
    tuple(made.PAGE * pages for pages in KERAS_GARBAGE),
)


class TestARisingSawtooth:
    """Garbage goes now and then, and what is kept beside it rises."""

    def test_of_a_new_keras_model_a_step_rises_by_what_keras_keeps(self) -> None:
        """Plain Python, collected and trimmed after each ten steps: 4.98 and 5.25 MB a step."""
        trial = timing_trial([3.6] * 32, [made.PAGE * float(pages) for pages in KERAS_RESIDENT])
        trial.facts.clean, trial.facts.host_collected_bytes = KERAS_CLEAN, 3_867_480
        assert host(trial) == pytest.approx(4.88e6, rel=0.05)

    @pytest.mark.parametrize("is_late", [True, False])
    def test_without_clean_readings_in_the_second_half_it_is_bounded(self, is_late: bool) -> None:
        """As recorded by a trial that let garbage pile up."""
        resident = [made.PAGE * float(pages) for pages in KERAS_UNCLEAN]
        trial = timing_trial([0.6] * 32, resident)
        trial.facts.host_collected_bytes = KERAS_COLLECTED
        if is_late:
            trial.facts.clean = CleanReadings((4, 8), (30_000_000, 46_000_000), (0, 8_000_000))
        found = growth.judge_host(trial)
        assert found is not None
        assert found.bytes_per_step is None
        assert found.at_most_bytes_per_step is not None
        assert found.at_most_bytes_per_step > 4.0e6

    def test_what_lies_under_garbage_and_stays_as_it_is_does_not_grow(self) -> None:
        readings = CleanReadings(
            tuple(range(100, 200, 10)), (4_000_000, 4_008_192) * 5, (2_000_000,) * 10
        )
        found = growth.judge_resident([6e6, 4e6] * 100, 1, readings, collected=2e6)
        assert found.bytes_per_step == 0
        assert found.at_most_bytes_per_step is not None
        assert 45 <= found.at_most_bytes_per_step <= HOST.unseen_bytes / 80

    def test_a_cache_that_is_emptied_is_judged_by_its_troughs(self) -> None:
        """It is no garbage, so clean readings meet it at any of its heights."""
        cache = [480_000.0 * (step % 27) + 10_000 * step for step in range(400)]
        rows = tuple(range(200, 400, 20))
        readings = CleanReadings(rows, tuple(map(cache.__getitem__, rows)), (0,) * len(rows))
        found = growth.judge_resident(cache, 1, readings)
        assert found.bytes_per_step == pytest.approx(10_000, rel=0.05)

    def test_of_any_kind_gets_no_false_verdict_and_no_false_bound(self) -> None:
        faults = made_programs.count_faults(80, seed=30)
        assert set(faults) == set(made_programs.KINDS)
        assert not [kind for kind, count in faults.items() if count["false verdict"]]
        assert not [kind for kind, count in faults.items() if count["false bound"]]
        assert sum(count["unknown"] + count["off"] for count in faults.values()) <= 4
