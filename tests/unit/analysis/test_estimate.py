"""From raw samples to metrics and intervals, against truth that is known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from runner.analysis import estimate
from runner.metrics import METRICS
from runner.records import Status, Trial
from tests.factories import completed, ended_trial, memory_trial, timing_trial

SPEC = completed().spec


def metrics(*trials: Trial) -> dict[str, float | None]:
    return estimate.estimate_metrics(trials, SPEC).metrics


class TestMemory:
    def test_each_figure_is_what_the_contract_says(self) -> None:
        found = metrics(memory_trial(500_000, [40_000, 40_000, 40_000]), timing_trial())
        assert found["tensor_peak_bytes"] == 500_000
        assert found["tensor_step_peak_bytes"] == 120_000
        assert found["tensor_live_bytes"] == 40_000
        assert found["tensor_retained_bytes"] == 0
        assert found["tensor_growth_bytes_per_step"] == 0
        assert found["allocated_bytes_per_step"] == 300_000
        assert found["allocations_per_step"] == 12
        assert found["allocator_peak_bytes"] == 512_000

    def test_the_first_call_costs_what_it_peaks_above_what_the_build_left(self) -> None:
        assert metrics(memory_trial())["first_call_tensor_peak_bytes"] == 240_000 - 40_000

    def test_bytes_and_counts_are_whole_numbers(self) -> None:
        found = metrics(memory_trial(500_000.0), timing_trial(), timing_trial(index=1))
        amounts = [name for name in found if not METRICS[name].is_time]
        assert amounts
        assert all(isinstance(found[name], int) for name in amounts if found[name] is not None)

    def test_several_trials_give_their_maximum_and_their_range(self) -> None:
        trials = [memory_trial(peak, index=i) for i, peak in enumerate((500, 700, 600))]
        found = estimate.estimate_metrics(trials, SPEC)
        assert found.metrics["tensor_peak_bytes"] == 700
        assert found.intervals["tensor_peak_bytes"] == (500, 700)

    def test_one_trial_has_no_range(self) -> None:
        assert (
            "tensor_peak_bytes" not in estimate.estimate_metrics([memory_trial()], SPEC).intervals
        )


class TestHostMemory:
    def test_the_peak_leaves_the_release_out(self) -> None:
        assert metrics(timing_trial(host_peak_bytes=30e6))["host_peak_bytes"] == 30_000_000

    def test_a_spike_in_the_first_call_is_in_the_peak(self) -> None:
        assert metrics(timing_trial(host_peak_bytes=10e6))["host_peak_bytes"] == 29_000_000

    def test_what_remains_is_read_after_release(self) -> None:
        assert metrics(timing_trial())["host_retained_bytes"] == 5_000_000

    def test_the_first_call_is_charged_with_what_it_added(self) -> None:
        assert metrics(timing_trial())["first_call_host_bytes"] == 4_000_000

    def test_the_estimate_is_the_median_with_an_interval_over_processes(self) -> None:
        peaks = (30e6, 31e6, 35e6)
        trials = [timing_trial(host_peak_bytes=peak, index=i) for i, peak in enumerate(peaks)]
        found = estimate.estimate_metrics(trials, SPEC)
        low, high = found.intervals["host_peak_bytes"]
        assert found.metrics["host_peak_bytes"] == 31_000_000
        assert low < 31_000_000 < high

    def test_a_meter_that_this_kernel_lacks_is_null_with_its_reason(self) -> None:
        trial = timing_trial(unavailable={"host_peak_bytes": "no high-water mark here"})
        for figures in trial.phases.values():
            msgspec.structs.force_setattr(figures, "host_peak_bytes", None)
        found = estimate.estimate_metrics([trial], SPEC)
        assert found.metrics["host_peak_bytes"] is None
        assert found.unavailable["host_peak_bytes"] == "no high-water mark here"


class TestTime:
    def test_a_process_counts_once_by_its_own_median(self) -> None:
        processes = ([0.001] * 50, [0.002] * 5, [0.009] * 500)
        trials = [timing_trial(seconds, index=i) for i, seconds in enumerate(processes)]
        assert metrics(*trials)["step_seconds"] == 0.002

    def test_the_warm_up_is_left_out(self) -> None:
        assert metrics(timing_trial([9.0, 9.0, 0.001, 0.002, 0.003]))["step_seconds"] == 0.002

    def test_examples_per_second_follow_from_the_step(self) -> None:
        trials = [timing_trial([s] * 5, index=i) for i, s in enumerate((0.001, 0.002, 0.004))]
        found = estimate.estimate_metrics(trials, SPEC)
        assert found.metrics["examples_per_second"] == pytest.approx(32 / 0.002)
        low, high = found.intervals["step_seconds"]
        assert found.intervals["examples_per_second"] == pytest.approx((32 / high, 32 / low))

    def test_there_are_no_examples_where_the_scenario_asked_for_none(self) -> None:
        assert "examples_per_second" not in metrics(timing_trial(batched=False))

    def test_phases_have_their_times(self) -> None:
        found = metrics(timing_trial(build_seconds=0.5, first_call_seconds=2.0))
        assert (found["build_seconds"], found["first_call_seconds"]) == (0.5, 2.0)

    def test_steps_that_were_all_warm_up_give_no_time(self) -> None:
        found = estimate.estimate_metrics([timing_trial([0.001, 0.001])], SPEC)
        assert found.metrics["step_seconds"] is None
        assert "warm-up" in found.unavailable["step_seconds"]


class TestWhatCouldNotBeHad:
    def test_a_failed_trial_gives_its_reason_to_every_metric_of_its_kind(self) -> None:
        ended = ended_trial("timing", Status.KILLED, "steps", "signal SEGV")
        found = estimate.estimate_metrics([memory_trial(), ended], SPEC)
        assert found.metrics["tensor_peak_bytes"] == 500_000
        for name in ("step_seconds", "host_peak_bytes", "build_seconds"):
            assert found.metrics[name] is None
            assert "killed in steps: signal SEGV" in found.unavailable[name]

    def test_a_kind_that_was_never_run_says_which_trial_ended_the_run(self) -> None:
        ended = ended_trial("memory", Status.OUT_OF_MEMORY, "first_call", "OOM\n  at line 3")
        found = estimate.estimate_metrics([ended], SPEC)
        assert found.unavailable["step_seconds"] == (
            "no timing trial completed; a memory trial ended out_of_memory in first_call: OOM"
        )

    def test_only_completed_trials_give_evidence(self) -> None:
        trials = [timing_trial([0.001] * 5), ended_trial("timing", Status.KILLED, "steps", "gone")]
        found = estimate.estimate_metrics(trials, SPEC)
        assert found.metrics["step_seconds"] == 0.001
        assert "step_seconds" not in found.intervals

    def test_every_null_has_a_reason_and_nothing_else_has(self) -> None:
        for trials in ([], [memory_trial()], [timing_trial()], [memory_trial(), timing_trial()]):
            found = estimate.estimate_metrics(trials, SPEC)
            nulls = {name for name, value in found.metrics.items() if value is None}
            assert set(found.unavailable) == nulls
            assert all(found.unavailable.values())

    def test_what_a_memory_trial_could_not_trace_has_its_reason(self) -> None:
        trial = memory_trial(unavailable={"tensor_peak_bytes": "more than 100,000 events"})
        trial.facts.tensor_peak_bytes = None
        found = estimate.estimate_metrics([trial], SPEC)
        assert found.metrics["tensor_peak_bytes"] is None
        assert found.unavailable["tensor_peak_bytes"] == "more than 100,000 events"
        assert found.metrics["allocator_peak_bytes"] == 512_000

    def test_graph_figures_are_absent_where_there_is_no_graph(self) -> None:
        assert "graph_traces" not in metrics(memory_trial(), timing_trial())

    def test_graph_figures_come_from_memory_trials_whose_steps_are_counted(self) -> None:
        found = metrics(timing_trial(graph_traces=41), memory_trial(graph_traces=6))
        assert found["graph_traces"] == 6

    def test_timing_trials_tell_what_memory_trials_do_not(self) -> None:
        assert metrics(timing_trial(graph_nodes=57), memory_trial())["graph_nodes"] == 57


class TestIntervals:
    """An interval is honest where it holds the truth as often as it says."""

    @pytest.mark.parametrize("processes", [3, 7, 20])
    @pytest.mark.parametrize("noise", ["normal", "heavy tails", "skewed", "one in seven astray"])
    def test_hold_the_truth_in_at_least_93_of_100(self, noise: str, processes: int) -> None:
        random = np.random.default_rng(7)
        draw: dict[str, tuple[Callable[[], Any], float]] = {
            "normal": (lambda: random.normal(size=processes), 0.0),
            "heavy tails": (lambda: random.standard_t(2, size=processes), 0.0),
            "skewed": (lambda: random.exponential(size=processes), float(np.log(2))),
            "one in seven astray": (
                lambda: random.normal(0, np.where(random.random(processes) < 1 / 7, 8, 1)),
                0.0,
            ),
        }
        sample, truth = draw[noise]
        intervals = (estimate.estimate_median_interval(sample().tolist()) for _ in range(2000))
        held = sum(low <= truth <= high for low, high in intervals)
        assert held / 2000 > 0.93

    def test_three_processes_promise_less_than_seven_and_seven_less_than_twenty(self) -> None:
        values = [0.97, 1.0, 1.04, 0.99, 1.01, 1.02, 0.98] * 3
        widths = [np.ptp(estimate.estimate_median_interval(values[:n])) for n in (3, 7, 20)]
        assert widths[0] > widths[1] > widths[2] > 0

    def test_the_standard_error_is_that_of_a_brute_bootstrap(self) -> None:
        values = [1.0, 1.1, 1.15, 1.3, 1.31, 1.5, 2.2]
        random = np.random.default_rng(0)
        drawn = np.median(random.choice(values, size=(100_000, len(values))), axis=1)
        assert estimate.estimate_median_error(values) == pytest.approx(drawn.std(), rel=0.02)

    def test_processes_that_agree_have_no_error(self) -> None:
        assert estimate.estimate_median_error([0.3, 0.3, 0.3]) == 0
