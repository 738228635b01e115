"""Ratios, intervals and verdicts: what they say of cells whose truth is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.comparison import OUTCOME, ComparisonRow, RowVerdict, compare
from runner.analysis.peak_comparison import PeakComparison, compare_peaks
from runner.analysis.selection import Pair
from runner.analysis.significance import estimate_ratio_error
from runner.errors import BadInput
from runner.machine import Environment
from runner.metrics import METRICS
from runner.records import Record, Status, Trial
from runner.render.conclusion import conclude
from tests.factories import (
    ENVIRONMENT,
    completed,
    ended_trial,
    failed,
    measured,
    memory_trial,
    timing_trial,
)

STEP = ["step_seconds"]
PEAK = ["tensor_peak_bytes"]


def pair(baseline: Record, candidate: Record) -> Pair:
    return Pair(baseline, candidate, "python_loop", "while_loop")


def only(baseline: Record, candidate: Record, metric: str, **options: Any) -> ComparisonRow:
    [row] = compare([pair(baseline, candidate)], [metric], **options).rows
    return row


def memory(*peaks: float) -> Record:
    trials = [memory_trial(peak, index=i) for i, peak in enumerate(peaks)]
    return measured(*trials, timing_trial())


def timed(medians: Sequence[float]) -> Record:
    """Each process does all its steps in the same time."""
    trials = [timing_trial([median] * 20, index=i) for i, median in enumerate(medians)]
    return measured(memory_trial(), *trials)


def noisy(
    random: np.random.Generator, processes: int = 7, slower: float = 1.0, spread: float = 0.03
) -> Record:
    """What a shared machine gives: each process is a few percent off as a whole, and its steps
    have heavy tails."""
    trials: list[Trial] = []
    for index in range(processes):
        process = 1e-3 * slower * np.exp(random.normal(0, spread))
        steps = process * np.exp(0.03 * random.standard_t(3, size=100))
        trials.append(timing_trial(steps.tolist(), index=index))
    return measured(*trials)


def verdicts(baseline: Record, candidate: Record, metric: str) -> RowVerdict:
    return only(baseline, candidate, metric).verdict


class TestMemory:
    def test_equal_peaks_are_the_same_and_the_ratio_is_a_point(self) -> None:
        row = only(memory(500_000), memory(500_000), "tensor_peak_bytes")
        assert (row.verdict, row.ratio, row.interval) == (RowVerdict.SAME, 1.0, (1.0, 1.0))

    @pytest.mark.parametrize("peak", [80_000, 500_000, 7_000_000_000])
    def test_a_peak_larger_by_one_percent_is_always_worse(self, peak: int) -> None:
        assert verdicts(memory(peak), memory(peak * 1.01), "tensor_peak_bytes") is RowVerdict.WORSE

    def test_a_smaller_peak_is_better_by_its_ratio(self) -> None:
        row = only(memory(900_000), memory(300_000), "tensor_peak_bytes")
        assert row.verdict is RowVerdict.BETTER
        assert row.ratio == pytest.approx(1 / 3)

    def test_less_than_the_stated_tolerance_is_the_same(self) -> None:
        row = only(memory(500_000), memory(502_000), "tensor_peak_bytes")
        assert (row.verdict, row.same_within) == (RowVerdict.SAME, "256 B or 0.5 %")

    def test_peaks_that_concurrency_moves_are_not_told_apart_by_one_draw(self) -> None:
        row = only(memory(500e3, 540e3, 520e3), memory(530e3, 560e3, 510e3), "tensor_peak_bytes")
        assert row.verdict is RowVerdict.UNCLEAR
        assert row.interval is not None
        assert row.interval[0] < 1 < row.interval[1]
        assert row.more_processes is not None

    def test_peaks_that_move_less_than_they_differ_are_told_apart(self) -> None:
        one, other = [500e3, 510e3, 505e3] * 3, [900e3, 905e3, 910e3] * 3
        row = only(memory(*one), memory(*other), "tensor_peak_bytes")
        assert row.verdict is RowVerdict.WORSE

    def test_a_graph_whose_processes_took_other_orders_is_never_exact(self) -> None:
        def graph(peak: float, *courses: str) -> Record:
            trials = [memory_trial(peak, index=i, graph_ops=True, course=course)
                      for i, course in enumerate(courses)]  # fmt: skip
            return measured(*trials)

        drawn = only(graph(500e3, "a", "b", "a"), graph(540e3, "a", "a", "c"), PEAK[0])
        assert (drawn.verdict, drawn.more_processes) == (RowVerdict.UNCLEAR, 4)
        shown = only(graph(500e3, *"aaaaaa"), graph(540e3, *"bbbbbb"), PEAK[0])
        assert (shown.verdict, shown.interval) == (RowVerdict.WORSE, (1.08, 1.08))

    @pytest.mark.parametrize(
        ("candidate", "verdict"),
        [
            ([1_010_000, 1_000_000, 1_004_000], "unclear"),  # within the range that was seen
            ([1_040_000, 1_041_000, 1_040_000], "unclear"),  # beyond it, as a fourth might be
            ([1_090_000, 1_091_000, 1_090_000], "unclear"),
            ([1_130_000, 1_131_000, 1_130_000], "worse"),  # beyond what most graphs move by
            ([1_130_000, 1_231_000, 1_180_000], "unclear"),  # and not beyond twice its own range
            ([850_000, 851_000, 850_000], "better"),
            ([1_001_000, 1_000_000, 1_004_000], "same"),
        ],
    )
    def test_three_processes_of_a_graph_tell_only_what_is_far_apart(
        self, candidate: list[int], verdict: str
    ) -> None:
        def record(peaks: list[int], identity: str) -> Record:
            trials = [
                memory_trial(peak, index=i, graph_ops=True, course=f"{identity}{i}")
                for i, peak in enumerate(peaks)
            ]
            return measured(*trials, id=identity)

        pair = (record([1_001_000, 1_000_000, 1_004_000], "a"), record(candidate, "b"))
        (row,) = compare([Pair(*pair, "a", "b")], ["tensor_peak_bytes"]).rows
        assert row.verdict == verdict

    @pytest.mark.parametrize("processes", [3, 4, 5, 6])
    def test_ranges_that_lie_far_apart_are_told_apart(self, processes: int) -> None:
        def record(peaks: Iterable[float], identity: str) -> Record:
            trials = [
                memory_trial(peak, index=i, graph_ops=True, course=f"{identity}{i}")
                for i, peak in enumerate(peaks)
            ]
            return measured(*trials, id=identity)

        ours = record(np.linspace(245e6, 257e6, processes), "a")
        theirs = record(np.linspace(289e6, 301e6, processes), "b")
        assert verdicts(ours, theirs, "tensor_peak_bytes") is RowVerdict.WORSE
        assert verdicts(theirs, ours, "tensor_peak_bytes") is RowVerdict.BETTER
        near = record(np.linspace(262e6, 270e6, processes), "c")
        row = only(ours, near, "tensor_peak_bytes")
        assert row.verdict is RowVerdict.UNCLEAR
        assert row.more_processes == 7 - processes

    def test_too_few_processes_are_the_reason_where_ranges_lie_apart(self) -> None:
        def record(*peaks: float) -> Record:
            trials = [
                memory_trial(peak, index=i, graph_ops=True, course=f"{peaks}{i}")
                for i, peak in enumerate(peaks)
            ]
            return measured(*trials)

        apart = only(record(100e6, 101e6, 100e6), record(105e6, 106e6, 105e6), PEAK[0])
        assert apart.reason.startswith("too few processes (3)")
        within = only(record(100e6, 106e6, 100e6), record(103e6, 109e6, 104e6), PEAK[0])
        assert within.reason.startswith("processes of one cell differ by as much")

    def test_what_is_held_is_compared_beside_a_peak_that_moves(self) -> None:
        one = [memory_trial(peak, [40_000.0] * 5) for peak in (500e3, 540e3, 520e3)]
        other = [memory_trial(peak, [45_000.0] * 5) for peak in (505e3, 545e3, 525e3)]
        found = compare([pair(measured(*one), measured(*other))]).rows
        verdicts = {row.metric: row.verdict for row in found}
        assert verdicts["tensor_peak_bytes"] is RowVerdict.UNCLEAR
        assert verdicts["tensor_live_bytes"] is RowVerdict.WORSE

    def test_one_trial_whose_steps_differ_does_not_tell_so_small_a_difference(self) -> None:
        trial = memory_trial(512_000)
        peaks = (107_000, 120_000, 107_000)
        steps = msgspec.structs.replace(trial.steps, tensor_peak_bytes=peaks)
        unsteady = measured(dataclasses.replace(trial, steps=steps))
        row = only(memory(500_000), unsteady, "tensor_peak_bytes")
        assert (row.verdict, row.interval, row.more_processes) == (RowVerdict.UNCLEAR, None, 2)
        assert "its steps differ by as much" in row.reason
        assert verdicts(memory(400_000), unsteady, "tensor_peak_bytes") is RowVerdict.WORSE
        assert verdicts(memory(511_900), unsteady, "tensor_peak_bytes") is RowVerdict.SAME

    def test_growth_out_of_nothing_is_worse_and_has_no_ratio(self) -> None:
        flat, growing = memory_trial(), memory_trial(live_bytes=[31_108 * i for i in range(5)])
        row = only(measured(flat), measured(growing), "tensor_growth_bytes_per_step")
        assert (row.verdict, row.ratio, row.candidate_value) == (RowVerdict.WORSE, None, 31_108)

    def test_no_growth_on_either_side_is_the_same(self) -> None:
        row = only(memory(1), memory(1), "tensor_growth_bytes_per_step")
        assert (row.verdict, row.ratio) == (RowVerdict.SAME, 1.0)

    def test_counts_are_the_same_only_if_equal(self) -> None:
        one, other = (measured(memory_trial(graph_nodes=n)) for n in (57, 58))
        assert verdicts(one, one, "graph_nodes") is RowVerdict.SAME
        assert verdicts(one, other, "graph_nodes") is RowVerdict.WORSE

    def test_host_memory_has_an_interval_over_processes(self) -> None:
        def host(*peaks: float) -> Record:
            return measured(
                *(timing_trial(host_peak_bytes=peak, index=i) for i, peak in enumerate(peaks))
            )

        quiet, noise = host(50.0e6, 50.2e6, 50.1e6), host(50.3e6, 50.0e6, 50.2e6)
        large, wild = host(90e6, 90.3e6, 90.1e6), host(30e6, 60e6, 90e6)
        assert verdicts(quiet, noise, "host_peak_bytes") is RowVerdict.SAME
        assert verdicts(quiet, large, "host_peak_bytes") is RowVerdict.WORSE
        assert verdicts(quiet, wild, "host_peak_bytes") is RowVerdict.UNCLEAR


SWAPPED = {RowVerdict.BETTER: RowVerdict.WORSE, RowVerdict.WORSE: RowVerdict.BETTER}


@st.composite
def near_the_tolerance(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    """What one to three processes tell of each of two cells that differ by about what counts as
    the same, which is a share of either the one or the other."""
    ours = [draw(st.integers(0, 10**8))] * draw(st.integers(1, 3))
    share = draw(st.sampled_from([0.005, 0.05])) * draw(st.floats(0.99, 1.06))
    theirs = [round(peak * (1 + share)) for peak in ours]
    spread = draw(st.integers(0, 300))
    return [peak + spread * i for i, peak in enumerate(ours)], [*theirs]


class TestWhichSideIsTheBaseline:
    @pytest.mark.parametrize("metric", ["tensor_peak_bytes", "host_peak_bytes"])
    @settings(deadline=None)
    @given(near_the_tolerance())
    def test_amounts_that_swap_sides_swap_better_and_worse_and_nothing_else(
        self, metric: str, sides: tuple[list[float], list[float]]
    ) -> None:
        one, other = (
            measured(*(memory_trial(peak, index=i) for i, peak in enumerate(peaks)),
                     *(timing_trial(host_peak_bytes=peak, index=i) for i, peak in enumerate(peaks)))
            for peaks in sides
        )  # fmt: skip
        there, back = only(one, other, metric), only(other, one, metric)
        assert back.verdict is SWAPPED.get(there.verdict, there.verdict)
        assert back.more_processes == there.more_processes

    def test_half_a_percent_is_one_of_the_larger_side(self) -> None:
        small, large = memory(1_000_000), memory(1_005_020)
        assert verdicts(small, large, "tensor_peak_bytes") is RowVerdict.SAME
        assert verdicts(large, small, "tensor_peak_bytes") is RowVerdict.SAME


class TestTime:
    def test_twice_the_time_is_worse_with_its_ratio_in_the_interval(self) -> None:
        row = only(timed([1.0, 1.01, 0.99]), timed([2.0, 2.02, 1.98]), "step_seconds")
        assert (row.verdict, row.ratio) == (RowVerdict.WORSE, 2.0)
        assert row.interval is not None
        assert 1.8 < row.interval[0] < 2 < row.interval[1] < 2.2

    def test_more_examples_a_second_are_better(self) -> None:
        row = only(timed([2.0, 2.02, 1.98]), timed([1.0, 1.01, 0.99]), "examples_per_second")
        assert (row.verdict, row.ratio) == (RowVerdict.BETTER, 2.0)

    def test_within_the_threshold_is_the_same(self) -> None:
        one, other = timed([1.0, 1.001, 0.999]), timed([1.02, 1.021, 1.019])
        assert verdicts(one, other, "step_seconds") is RowVerdict.SAME

    def test_the_threshold_can_be_set(self) -> None:
        one, other = timed([1.0, 1.001, 0.999]), timed([1.02, 1.021, 1.019])
        assert only(one, other, "step_seconds", threshold=0.01).verdict is RowVerdict.WORSE

    def test_one_process_is_no_evidence_however_many_steps_it_has(self) -> None:
        row = only(timed([1.0]), timed([2.0]), "step_seconds")
        assert (row.verdict, row.interval, row.more_processes) == (RowVerdict.UNCLEAR, None, 2)

    def test_the_verdict_of_the_same_records_is_always_the_same(self) -> None:
        random = np.random.default_rng(0)
        one, other = noisy(random), noisy(random)
        assert only(one, other, "step_seconds") == only(one, other, "step_seconds")

    def test_phases_compare_by_their_one_value_a_process(self) -> None:
        one, other = (
            measured(*(timing_trial(first_call_seconds=s * f, index=i)
                       for i, s in enumerate((1.0, 1.02, 0.97))))
            for f in (1, 3)
        )  # fmt: skip
        assert verdicts(one, other, "first_call_seconds") is RowVerdict.WORSE

    def test_drawing_a_rank_is_drawing_steps(self) -> None:
        random = np.random.default_rng(5)
        processes = [random.lognormal(size=count).tolist() for count in (21, 33, 15)]
        brute = []
        for _ in range(20_000):
            chosen = [processes[i] for i in random.integers(3, size=3)]
            brute.append(
                np.log(np.median([np.median(random.choice(p, size=len(p))) for p in chosen]))
            )
        assert estimate_ratio_error(processes) == pytest.approx(np.std(brute), rel=0.06)


class TestChance:
    """On noise as a shared machine has it, seeded: how often it is right."""

    @pytest.mark.parametrize("spread", [0.02, 0.04])
    def test_two_identical_cells_are_called_different_at_most_5_times_in_100(
        self, spread: float
    ) -> None:
        random = np.random.default_rng(11)
        found = [
            verdicts(noisy(random, spread=spread), noisy(random, spread=spread), "step_seconds")
            for _ in range(100)
        ]
        assert sum(each in (RowVerdict.BETTER, RowVerdict.WORSE) for each in found) <= 5

    @pytest.mark.parametrize("spread", [0.02, 0.04])
    def test_a_step_15_percent_slower_is_found_9_times_in_10(self, spread: float) -> None:
        random = np.random.default_rng(12)
        found = [
            verdicts(
                noisy(random, spread=spread), noisy(random, slower=1.15, spread=spread),
                "step_seconds",
            )
            for _ in range(100)
        ]  # fmt: skip
        assert found.count(RowVerdict.WORSE) >= 90

    @pytest.mark.parametrize("processes", [3, 7, 20])
    def test_the_interval_holds_the_true_ratio(self, processes: int) -> None:
        random = np.random.default_rng(13)
        held = 0
        for _ in range(150):
            row = only(
                noisy(random, processes), noisy(random, processes, slower=1.15), "step_seconds"
            )
            assert row.interval is not None
            held += row.interval[0] <= 1.15 <= row.interval[1]
        assert held / 150 > 0.92

    def test_the_processes_it_asks_for_settle_it(self) -> None:
        random = np.random.default_rng(14)
        settled: list[bool] = []
        while len(settled) < 25:
            one, other = noisy(random, 3), noisy(random, 3, slower=1.1)
            row = only(one, other, "step_seconds")
            if row.more_processes is None:
                continue
            one, other = (
                measured(*record.trials, *noisy(random, row.more_processes, slower).trials)
                for record, slower in ((one, 1.0), (other, 1.1))
            )
            settled.append(verdicts(one, other, "step_seconds") is not RowVerdict.UNCLEAR)
        assert sum(settled) >= 18

    def test_many_rows_share_the_chance_of_one(self) -> None:
        random = np.random.default_rng(15)
        pairs = [pair(noisy(random), noisy(random)) for _ in range(40)]
        alone = [compare([each], STEP).rows[0] for each in pairs]
        together = compare(pairs, STEP)
        assert together.tested == 40
        for one, same in zip(alone, together.rows, strict=True):
            assert one.interval is not None
            assert same.interval is not None
            assert same.interval[0] < one.interval[0] <= one.interval[1] < same.interval[1]

    def test_exact_rows_take_no_share_of_the_chance(self) -> None:
        assert compare([pair(memory(1), memory(1))] * 40, PEAK).tested == 0


def on(comparable: dict[str, Any]) -> Environment:
    return msgspec.structs.replace(ENVIRONMENT, comparable=comparable)


class TestWhatCanNotBeCompared:
    def elsewhere(self, **differs: Any) -> tuple[Record, Record]:
        same = {"tensorflow": "2.21.0", "cpu": "A", "allocator": "default", "device": "CPU:0"}
        one = dataclasses.replace(timed([1.0, 1.01, 0.99]), environment=on(same))
        other = dataclasses.replace(one, environment=on({**same, **differs}), fingerprint="another")
        return one, other

    def test_times_of_two_versions_do_not_compare_and_it_says_why(self) -> None:
        row = only(*self.elsewhere(tensorflow="2.20.0"), "step_seconds")
        assert row.verdict is RowVerdict.NOT_COMPARABLE
        assert row.reason == "tensorflow differs, 2.21.0 against 2.20.0"
        assert (row.ratio, row.interval) == (None, None)

    @pytest.mark.parametrize("metric", ["tensor_peak_bytes", "host_peak_bytes"])
    def test_their_memory_does(self, metric: str) -> None:
        assert verdicts(*self.elsewhere(tensorflow="2.20.0", cpu="B"), metric) is RowVerdict.SAME

    def test_host_memory_does_not_compare_across_allocators(self) -> None:
        one, other = self.elsewhere(allocator="capped", cpu="B")
        row = only(one, other, "host_peak_bytes")
        assert row.reason == "allocator differs, default against capped"
        assert verdicts(one, other, "tensor_peak_bytes") is RowVerdict.SAME

    def test_what_the_cells_are_meant_to_differ_in_is_no_obstacle(self) -> None:
        one, other = self.elsewhere(device="GPU:0")
        assert verdicts(one, other, "step_seconds") is RowVerdict.NOT_COMPARABLE
        device = dataclasses.replace(other.spec.device, kind="gpu")
        meant = dataclasses.replace(other, spec=dataclasses.replace(other.spec, device=device))
        assert verdicts(one, meant, "step_seconds") is RowVerdict.SAME

    def test_a_metric_that_is_null_gives_its_reason(self) -> None:
        row = only(completed(), completed(), "host_growth_bytes_per_step")
        assert row.verdict is RowVerdict.NOT_COMPARABLE
        assert row.reason == "either: needs 200 steps, or 10 s of them"

    def test_a_metric_that_only_one_of_them_has_says_so(self) -> None:
        row = only(measured(memory_trial()), measured(memory_trial(graph_nodes=3)), "graph_nodes")
        assert row.reason == "python_loop: does not apply"

    def test_a_metric_that_neither_has_is_no_row(self) -> None:
        found = compare([pair(memory(1), memory(1))], ["tensor_peak_bytes", "graph_nodes"])
        assert [row.metric for row in found.rows] == PEAK
        with pytest.raises(BadInput, match="graph_nodes: applies to none"):
            compare([pair(memory(1), memory(1))], ["graph_nodes"])

    def test_every_metric_can_be_compared(self) -> None:
        record = measured(
            *(memory_trial(index=i, graph_traces=1, graph_nodes=5, graph_nodes_per_step=0)
              for i in range(2)),
            *(timing_trial([0.001, 0.00101] * 100, index=i) for i in range(3)),
        )  # fmt: skip
        found = compare([pair(record, record)], list(METRICS))
        assert [row.metric for row in found.rows] == list(METRICS)
        assert {row.verdict for row in found.rows} == {RowVerdict.SAME}


class TestOutcomes:
    def test_a_cell_that_no_longer_completes_is_worse(self) -> None:
        [row] = compare([pair(completed(), failed())]).rows
        assert (row.metric, row.verdict) == (OUTCOME, RowVerdict.WORSE)
        assert row.reason == "while_loop: out of memory in first_call"

    def test_a_cell_that_completes_at_last_is_better(self) -> None:
        assert compare([pair(failed(), completed())]).rows[0].verdict is RowVerdict.BETTER

    def test_two_failures_do_not_compare(self) -> None:
        assert compare([pair(failed(), failed())]).rows[0].verdict is RowVerdict.NOT_COMPARABLE

    @pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.INTERRUPTED])
    def test_what_was_not_tried_is_neither_better_nor_worse(self, status: Status) -> None:
        [row] = compare([pair(completed(), failed(status=status))]).rows
        assert row.verdict is RowVerdict.NOT_COMPARABLE

    def test_what_was_measured_before_the_failure_still_compares(self) -> None:
        ended = measured(
            memory_trial(900_000), ended_trial("timing", Status.KILLED, "steps", "SEGV")
        )
        rows = compare([pair(memory(500_000), ended)]).rows
        assert [row.metric for row in rows] == [
            OUTCOME, "tensor_peak_bytes", "tensor_growth_bytes_per_step",
        ]  # fmt: skip


class TestAllocations:
    def test_the_largest_difference_comes_first_and_all_sum_to_the_peaks(self) -> None:
        one, other = completed(scenario="python_loop"), completed(scenario="while_loop")
        found = compare_peaks(pair(one, other))
        assert isinstance(found, PeakComparison)
        assert found.baseline_bytes == one.metrics["tensor_peak_bytes"]
        assert found.candidate_bytes == other.metrics["tensor_peak_bytes"]
        first, second = found.groups
        assert (first.op, first.shape, first.dtype) == ("MatMul", "32x100", "float32")
        assert (first.baseline_count, first.candidate_count) == (100, 3)
        assert first.difference == (3 - 100) * 32 * 100 * 4
        assert second.difference == 0
        assert found.apart == (first,)

    def test_a_group_that_only_one_of_them_holds_counts_from_nothing(self) -> None:
        found = compare_peaks(pair(completed(batch_size=32), completed(batch_size=64)))
        assert isinstance(found, PeakComparison)
        differences = {group.shape: group.difference for group in found.apart}
        assert differences == {"32x100": -3 * 32 * 100 * 4, "64x100": 3 * 64 * 100 * 4}

    def test_where_they_are_unknown_it_says_whose_and_why(self) -> None:
        assert compare_peaks(pair(completed(), failed())) == (
            "while_loop: no memory trial completed"
        )


class TestTheSentence:
    def said(self, baseline: Record, candidate: Record, **held: str) -> str:
        both = Pair(baseline, candidate, "python_loop", "while_loop", held)
        return conclude(compare([both], ["tensor_peak_bytes", "step_seconds"]))

    def both(self, peak: float, *medians: float) -> Record:
        trials = [timing_trial([median] * 20, index=i) for i, median in enumerate(medians)]
        return measured(memory_trial(peak), *trials)

    def test_says_how_much_less_and_what_would_settle_the_rest(self) -> None:
        one = self.both(3_100_000, 1.0, 1.1, 0.95)
        other = self.both(1_000_000, 1.2, 1.3, 1.1)
        memory, time = self.said(one, other, batch_size="512").split(". ")
        assert memory == "Peak memory: while_loop needs 68 % less than python_loop"
        assert time.startswith("Time: while_loop against python_loop: unclear: ")
        assert time.endswith(" more processes would settle it.")

    def test_says_small_differences_in_percent(self) -> None:
        one, other = self.both(1_000_000, 1.0, 1.0, 1.0), self.both(1_120_000, 1.2, 1.2, 1.2)
        assert self.said(one, other) == (
            "Peak memory: while_loop needs 12 % more than python_loop. "
            "Time: while_loop takes 20 % more than python_loop."
        )

    def test_says_what_is_the_same(self) -> None:
        one = self.both(1_000_000, 1.0, 1.0, 1.0)
        assert self.said(one, one) == (
            "Peak memory: while_loop needs as much as python_loop. "
            "Time: while_loop takes as much as python_loop."
        )

    def test_says_time_alone_where_only_time_was_compared(self) -> None:
        pairs = [pair(timed([1.0, 1.0]), timed([2.0, 2.0]))]
        assert conclude(compare(pairs, STEP)) == (
            "Time: while_loop takes 2 times as much as python_loop."
        )

    def test_says_what_else_was_compared(self) -> None:
        one, other = (measured(memory_trial(graph_nodes=n)) for n in (57, 580))
        assert conclude(compare([pair(one, other)], ["graph_nodes"])) == (
            "Graph nodes: while_loop has 10.2 times as much as python_loop."
        )

    def test_speaks_of_all_pairs_with_their_range_and_the_exceptions(self) -> None:
        def said(*peaks: float) -> str:
            pairs = [
                Pair(
                    memory(900e3), memory(peak), "python_loop", "while_loop", {"batch_size": batch}
                )
                for batch, peak in zip(("32", "128", "512"), peaks, strict=True)
            ]
            return conclude(compare(pairs, PEAK))

        assert said(800e3, 200e3, 700e3) == (
            "Peak memory: while_loop needs 11 to 78 % less than python_loop."
        )
        assert said(900e3, 3600e3, 450e3) == (
            "Peak memory: while_loop needs 4 times as much as python_loop with batch 128, "
            "50 % less with batch 512, as much with batch 32."
        )

    def test_does_not_hide_that_a_cell_failed(self) -> None:
        pairs = [pair(memory(900_000), memory(300_000)), pair(failed(), memory(300_000))]
        assert conclude(compare(pairs, PEAK)).endswith(
            "In 1 of 2 pairs a cell did not complete; python_loop: out of memory in first_call."
        )

    def test_has_only_the_failure_to_say_where_that_is_all(self) -> None:
        assert conclude(compare([pair(completed(), failed())])) == (
            "while_loop: out of memory in first_call."
        )
