"""The replay, on hand-made events of which the truth is known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.allocations import GRADIENT
from runner.meters.tensor import samples
from runner.meters.tensor.allocator import name_allocator
from runner.meters.tensor.names import name_dtype, name_op
from runner.meters.tensor.replay import MOST_POINTS, Replay, TraceResult, simplify
from runner.meters.tensor.window import NONE, Mark, Window
from runner.records import Phase

OURS, OTHER = "ours", "another"
ROUNDING = 256


def kept(found: TraceResult) -> dict[str, Any]:
    """As the record has it."""
    plain: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(samples.pick_allocations(found))
    )
    return plain


@dataclass
class Story:
    """A trace written by hand: one event every 10 ns, and a running total as allocators keep it."""

    now: int = 1_000
    events: list[dict[str, object]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    sizes: dict[tuple[str, int], int] = field(default_factory=dict)
    in_use: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)

    def make(
        self,
        address: int,
        size: int,
        op: str = "MatMul",
        shape: str = "",
        dtype: int = 1,
        allocator: str = OURS,
        within: str = "",
        seen: bool = True,
    ) -> Story:
        self.sizes[allocator, address] = size
        self._event(address, size, allocator, seen, freed=False)
        if seen:
            self.events[-1] |= {"op": op, "shape": shape, "dtype": dtype, "within": within}
        return self

    def free(self, address: int, allocator: str = OURS, seen: bool = True) -> Story:
        self._event(address, self.sizes.pop((allocator, address)), allocator, seen, freed=True)
        return self

    def _event(self, address: int, size: int, allocator: str, seen: bool, freed: bool) -> None:
        self.now += 10
        whole = -(-size // ROUNDING) * ROUNDING
        self.in_use[allocator] = self.in_use.get(allocator, 0) + (-whole if freed else whole)
        self.peak[allocator] = max(self.peak.get(allocator, 0), self.in_use[allocator])
        if seen:
            self.events.append(
                {
                    "time_ns": self.now,
                    "freed": freed,
                    "address": address,
                    "requested_bytes": size,
                    "allocated_bytes": whole,
                    "in_use_bytes": self.in_use[allocator],
                    "peak_bytes": self.peak[allocator],
                    "allocator": allocator,
                }
            )

    def begin(self, phase: Phase, step: int = 0) -> Story:
        self.now += 10
        self.marks.append(Mark(phase, step, self.now, -1))
        return self

    def end(self) -> Story:
        self.now += 10
        self.marks[-1] = self.marks[-1]._replace(end_ns=self.now)
        return self

    def window(self) -> Window:
        """What happened since the last window."""
        names: dict[str, int] = {}

        def numbers(column: str) -> np.ndarray:
            return np.array([event.get(column, NONE) for event in self.events], np.int64)

        def codes(column: str) -> np.ndarray:
            texts = [str(event.get(column, "")) for event in self.events]
            return np.array(
                [names.setdefault(text, len(names)) if text else NONE for text in texts], np.int64
            )

        window = Window(
            time_ns=numbers("time_ns"),
            freed=numbers("freed").astype(bool),
            thread=numbers("thread"),
            address=numbers("address"),
            requested_bytes=numbers("requested_bytes"),
            allocated_bytes=numbers("allocated_bytes"),
            in_use_bytes=numbers("in_use_bytes"),
            peak_bytes=numbers("peak_bytes"),
            dtype=numbers("dtype"),
            allocator=codes("allocator"),
            op=codes("op"),
            shape=codes("shape"),
            within=codes("within"),
            on_data_thread=np.zeros(len(self.events), bool),
            names=tuple(names),
            marks=tuple(self.marks),
            op_types={},
        )
        self.events, self.marks = [], []
        return window


def replayed(*windows: Window) -> TraceResult:
    replay = Replay(OURS)
    for window in windows:
        replay.feed(window)
    return replay.result()


def is_clean(found: TraceResult) -> bool:
    checks = found.checks
    counts = (checks.unmatched_frees, checks.reused_addresses, checks.disagreements)
    return not any(counts) and checks.live_before_bytes == 0


# The peak.


def test_the_peak_is_the_most_bytes_live_at_once_whatever_order_they_are_freed_in() -> None:
    story = Story().begin(Phase.BUILD)
    story.make(1, 100).make(2, 20).free(1).make(3, 300).free(3).make(4, 50).free(2).free(4).end()

    found = replayed(story.window())

    assert found.total_bytes == 320
    assert (found.phase, found.step) == (Phase.BUILD, None)
    assert [group.bytes for group in found.groups] == [320]
    assert is_clean(found)


def test_an_address_used_again_counts_for_its_present_tenant_only() -> None:
    story = Story().begin(Phase.BUILD)
    story.make(1, 100, op="First").free(1).make(1, 70, op="Second").make(2, 40, op="Third").end()

    found = replayed(story.window())

    assert found.total_bytes == 110
    assert {group.op: group.bytes for group in found.groups} == {"Second": 70, "Third": 40}


def test_groups_are_largest_first_and_sum_to_the_peak_with_counts_and_shares() -> None:
    story = Story().begin(Phase.BUILD)
    story.make(1, 10, op="Fill", shape="[5]", dtype=19)
    for address in (2, 3, 4):
        story.make(address, 30, op="MatMul", shape="[3,5]", dtype=1)
    story.end()

    found = replayed(story.window())

    assert [(g.op, g.shape, g.dtype, g.count, g.bytes, g.share) for g in found.groups] == [
        ("MatMul", (3, 5), "float32", 3, 90, 0.9),
        ("Fill", (5,), "float16", 1, 10, 0.1),
    ]


def test_of_equal_peaks_the_first_one_in_a_steady_step_is_the_one() -> None:
    story = Story().begin(Phase.FIRST_CALL).make(1, 100, op="First").free(1).end()
    for step in range(3):
        story.begin(Phase.STEPS, step).make(1, 100, op=f"Of{step}").free(1).end()

    found = replayed(story.window())

    assert (found.phase, found.step, found.groups[0].op) == (Phase.STEPS, 0, "Of0")


def test_what_is_live_in_the_release_is_no_peak() -> None:
    story = Story().begin(Phase.STEPS, 0).make(1, 100).end()
    story.begin(Phase.RELEASE).make(2, 900).free(2).end()

    found = replayed(story.window())

    assert found.total_bytes == 100
    assert found.retained_bytes == 100
    assert found.allocator_peak_bytes == 256


def test_a_trial_without_any_allocation_has_a_peak_of_nothing() -> None:
    found = replayed(Story().begin(Phase.BUILD).end().window())

    assert found.total_bytes == 0
    assert found.groups == found.leaks == ()
    assert [one.span.phase for one in found.stretches] == [Phase.BUILD]
    assert found.retained_bytes is None


def test_a_peak_between_two_marks_belongs_to_the_phase_before() -> None:
    story = Story().begin(Phase.STEPS, 0).make(1, 100).end().make(2, 50).free(2)
    story.begin(Phase.STEPS, 1).free(1).end()

    found = replayed(story.window())

    assert (found.total_bytes, found.phase, found.step) == (150, Phase.STEPS, 0)
    assert (found.split.held_bytes, found.split.passing_bytes) == (100, 50)


# The split.


def test_the_peak_is_split_into_what_was_there_what_stays_and_what_passes() -> None:
    story = Story().begin(Phase.BUILD).make(1, 1_000, op="Weight").end()
    story.begin(Phase.STEPS, 0).make(2, 100, op="Kept").make(3, 10, op="Passing").free(3).end()

    found = replayed(story.window())

    split = found.split
    assert (split.held_bytes, split.kept_bytes, split.passing_bytes) == (1_000, 100, 10)
    assert split.gradient_bytes is None
    assert {group.op: group.split.kept_bytes for group in found.groups} == {
        "Weight": 0,
        "Kept": 100,
        "Passing": 0,
    }


def test_what_takes_the_place_of_what_was_held_is_not_kept() -> None:
    """As a graph's update of a variable does; of three new ones of a size two have a place."""
    story = Story().begin(Phase.BUILD).make(1, 500).make(2, 500).make(3, 70).end()
    story.begin(Phase.STEPS, 0).make(4, 500).free(1).make(5, 500).free(2).make(6, 500)
    story.make(7, 71).free(3).make(8, 900).free(8).end()

    split = replayed(story.window()).split

    assert (split.kept_bytes, split.passing_bytes) == (500 + 71, 1_000 + 900)
    assert split.held_bytes == 0


def test_what_waits_for_the_backward_pass_is_told_from_what_passes_where_ops_have_names() -> None:
    story = Story().begin(Phase.STEPS, 0)
    story.make(1, 100, op="model/dense/Relu", shape="[25]")  # lives until its gradient is taken
    story.make(2, 7, op="model/dense/MatMul")  # does not
    story.free(2)
    story.make(3, 30, op="gradient_tape/model/dense/ReluGrad", shape="[5]").free(1).free(3).end()

    found = replayed(story.window())

    assert found.total_bytes == 130
    assert (found.split.gradient_bytes, found.split.passing_bytes) == (100, 30)
    assert found.groups[0].split.gradient_bytes == 100


def test_a_gradient_s_part_that_runs_ahead_does_not_begin_the_backward_pass() -> None:
    """As a GELU's derivative does: it needs nothing but what went into the layer."""
    story = Story().begin(Phase.STEPS, 0)
    story.make(1, 100, op="model/first/Gelu/mul", shape="[25]")
    story.make(2, 40, op="gradient_tape/model/first/Gelu/Square", shape="[10]")
    story.make(3, 200, op="model/second/Gelu/mul", shape="[50]")
    story.make(4, 30, op="gradient_tape/model/second/Gelu/mul/Mul", shape="[5]")
    story.free(3).free(2).free(1).free(4)
    story.make(5, 8, op="adam/AssignAddVariableOp", shape="[2]").free(5).end()

    found = replayed(story.window())

    assert found.total_bytes == 370
    assert (found.split.gradient_bytes, found.split.passing_bytes) == (340, 30)


# Phases and steps.


def test_a_step_knows_its_begin_its_end_its_peak_and_what_it_allocated() -> None:
    story = Story().begin(Phase.BUILD).make(1, 1_000).end()
    story.begin(Phase.STEPS, 0).make(2, 300).make(3, 40).free(2).end()

    (step,) = replayed(story.window()).steps

    assert (step.begin_bytes, step.end_bytes) == (1_000, 1_040)
    assert (step.peak_bytes, step.peak_bytes - step.begin_bytes) == (1_340, 340)
    assert (step.allocated_bytes, step.allocations) == (340, 2)


def test_a_step_that_only_frees_peaks_at_its_begin() -> None:
    story = Story().begin(Phase.BUILD).make(1, 1_000).end()
    story.begin(Phase.STEPS, 0).free(1).end()

    (step,) = replayed(story.window()).steps

    assert (step.peak_bytes, step.peak_bytes - step.begin_bytes, step.end_bytes) == (1_000, 0, 0)


def test_a_step_without_events_has_the_live_bytes_of_the_one_before() -> None:
    story = Story().begin(Phase.STEPS, 0).make(1, 5).end().begin(Phase.STEPS, 1).end()

    first, second = replayed(story.window()).steps

    assert (second.begin_bytes, second.end_bytes, second.allocations) == (5, 5, 0)
    assert first.span.end_seconds < second.span.begin_seconds


# Leaks.


def test_what_a_step_keeps_past_the_next_step_is_its_leak() -> None:
    story = Story()
    for step in range(5):
        story.begin(Phase.STEPS, step)
        story.make(100 + step, 31_108, op="Fill", shape="[7777]")  # kept for good
        story.make(200 + step, 64, op="Carry")  # handed to the next step
        if step:
            story.free(200 + step - 1)
        story.make(1, 999).free(1).end()

    found = replayed(story.window())

    assert [(leak.op, leak.shape, leak.count, leak.bytes) for leak in found.leaks] == [
        ("Fill", (7777,), 4, 4 * 31_108)
    ]
    assert (found.leaks[0].count_per_step, found.leaks[0].bytes_per_step) == (1, 31_108)
    assert found.leak_steps == 4


def test_what_lasts_in_the_place_of_something_else_is_no_leak() -> None:
    story = Story().begin(Phase.BUILD).make(1, 50, op="Variable").end()
    for step in range(4):
        story.begin(Phase.STEPS, step).make(9, 10)
        if step == 1:
            story.make(2, 50, op="Assign").free(1)  # the variable's new value
        story.free(9).end()

    assert replayed(story.window()).leaks == ()


# What is lost, foreign or out of order.


def test_another_allocators_events_are_counted_and_otherwise_ignored() -> None:
    story = Story().begin(Phase.BUILD).make(1, 10)
    story.make(1, 5_000, allocator=OTHER).make(2, 1).free(1, allocator=OTHER).end()

    found = replayed(story.window())

    assert found.total_bytes == 11
    assert found.allocators == {OURS: 2, OTHER: 2}
    assert is_clean(found)


def test_a_free_of_what_was_there_before_the_trace_is_counted_and_changes_nothing() -> None:
    story = Story().make(9, 500, seen=False)
    story.begin(Phase.BUILD).make(1, 10).free(9).free(1).end()

    found = replayed(story.window())

    assert found.total_bytes == 10
    assert found.stretches[0].end_bytes == 0
    assert found.checks.unmatched_frees == 1
    assert found.checks.live_before_bytes == 512
    assert found.checks.disagreements == 0


def test_an_address_allocated_twice_was_freed_unseen_and_is_counted() -> None:
    story = Story().begin(Phase.BUILD).make(1, 100, op="Lost").make(2, 1)
    story.free(1, seen=False).make(1, 30, op="Found").end()

    found = replayed(story.window())

    assert found.checks.reused_addresses == 1
    assert found.checks.disagreements == 1
    assert found.stretches[0].end_bytes == 31


def test_a_lost_allocation_shows_in_the_allocators_own_running_total() -> None:
    story = Story().begin(Phase.BUILD).make(1, 100).make(2, 1_000, seen=False).make(3, 10).end()

    assert replayed(story.window()).checks.disagreements == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_events_of_one_nanosecond_come_in_the_order_that_makes_sense(swapped: bool) -> None:
    story = Story().begin(Phase.BUILD).make(1, 100).free(1).make(1, 60).end()
    events = story.events
    events[1]["time_ns"] = events[2]["time_ns"]
    if swapped:  # as it may come out when the two were recorded by two threads
        events[1], events[2] = events[2], events[1]

    found = replayed(story.window())

    assert is_clean(found)
    assert found.stretches[0].end_bytes == 60


def test_memory_made_and_freed_in_one_nanosecond_is_not_freed_before_it_is_made() -> None:
    story = Story().begin(Phase.BUILD).make(2, 10).make(1, 100).free(1).end()
    story.events[2]["time_ns"] = story.events[1]["time_ns"]

    found = replayed(story.window())

    assert is_clean(found)
    assert (found.total_bytes, found.stretches[0].end_bytes) == (110, 10)


# Windows.


def long_story(steps: int, cut: Iterable[int]) -> list[Window]:
    """A few steps that carry, leak and pass, cut into windows before the steps named."""
    story, windows = Story(), []
    story.begin(Phase.BUILD).make(1, 400, op="Weight").end()
    for step in range(steps):
        if step in cut:
            windows.append(story.window())
        story.begin(Phase.STEPS, step).make(1_000 + step, 16, op="Fill")
        story.make(2, 30 + step % 3, op="Tanh").make(3, 60).free(2)
        if step:
            story.free(2_000 + step - 1)
        story.make(2_000 + step, 8, op="Carry").free(3).end()
    story.begin(Phase.RELEASE).free(1).end()
    return [*windows, story.window()]


@settings(deadline=None)  # the machine may be busy
@given(st.sets(st.integers(0, 11)))
def test_it_makes_no_difference_where_a_trace_is_cut_into_windows(cut: set[int]) -> None:
    whole = kept(replayed(*long_story(12, ())))
    parts = kept(replayed(*long_story(12, cut)))

    assert parts["checks"].pop("windows") == len(cut) + 1
    del whole["checks"]["windows"]
    assert parts == whole


@settings(deadline=None)  # the machine may be busy
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(1, 6), st.integers(1, 10**12), st.booleans()),
        max_size=60,
    )
)
def test_live_bytes_are_never_negative_and_groups_always_sum_whatever_is_lost(
    script: list[tuple[bool, int, int, bool]],
) -> None:
    story = Story().begin(Phase.STEPS, 0)
    for makes, address, size, seen in script:
        if makes and (OURS, address) not in story.sizes:
            story.make(address, size, op=f"Op{address % 2}", seen=seen)
        elif (OURS, address) in story.sizes:
            story.free(address, seen=seen)
    window = story.end().window()
    found = replayed(window)

    live: dict[int, int] = {}  # the plain way: one event after the other
    levels = [0]
    for address, size, freed in zip(
        window.address, window.requested_bytes, window.freed, strict=True
    ):
        live.pop(address, None)
        live |= {} if freed else {int(address): int(size)}
        levels.append(sum(live.values()))
    assert found.total_bytes == max(levels)
    assert found.steps[0].end_bytes == levels[-1]
    assert sum(group.bytes for group in found.groups) == found.total_bytes
    assert min(found.curve.bytes, default=0) >= 0
    assert max(found.curve.bytes, default=0) == max(found.peak_curve.bytes, default=0)
    assert max(found.curve.bytes, default=0) == found.total_bytes


# The curve.


def test_the_curve_of_the_peaks_step_reaches_from_its_begin_to_its_end_and_is_exact() -> None:
    story = Story().begin(Phase.BUILD).make(1, 100).end()
    story.begin(Phase.STEPS, 0).make(2, 30).make(3, 5).free(3).free(2).end()

    found = replayed(story.window())

    (step,) = found.steps
    assert found.peak_curve.bytes == (100, 130, 135, 130, 100, 100)
    assert found.peak_curve.seconds[0] == step.span.begin_seconds
    assert found.peak_curve.seconds[-1] == step.span.end_seconds


def test_a_simplified_curve_keeps_its_extremes_and_the_levels_that_last() -> None:
    times = np.arange(100_000)
    levels = np.random.default_rng(0).integers(0, 1_000, times.size)
    levels[50_001] = 10_000  # one event among a hundred thousand
    levels[70_000] = 5_000
    times[70_001:] += 900_000  # a level that lasts, right after many that don't

    few_times, few_levels = simplify(times, levels, MOST_POINTS)

    assert few_times.size <= MOST_POINTS
    assert few_levels.max() == 10_000
    assert few_levels.min() == levels.min()
    assert 5_000 in few_levels[few_times == 70_000]
    assert set(zip(few_times, few_levels, strict=True)) <= set(zip(times, levels, strict=True))


def test_a_curve_of_few_points_is_left_alone() -> None:
    times, levels = np.arange(10), np.arange(10)

    assert simplify(times, levels, MOST_POINTS) == (times, levels)


# Names.


@pytest.mark.parametrize(
    ("op", "scope_and_op"),
    [
        ("Tanh", ("Tanh", "")),
        ("_MklMatMul", ("MatMul", "")),
        ("_MklNativeFusedMatMul", ("FusedMatMul", "")),
        ("matmul_57", ("matmul", "")),
        ("sequential/first/Relu", ("Relu", "sequential/first")),
        ("layer_3/matmul_2", ("matmul", "layer_3")),
        ("gradient_tape/model/two/MatMul/MatMul_1", ("MatMul", f"model/two/MatMul/{GRADIENT}")),
        ("gradients_1/model/mul_grad/Mul", ("Mul", f"model/mul_grad/{GRADIENT}")),
        ("outer/while/body/_1/outer/while/mm", ("mm", "outer/while/body")),
        ("cond/else/_1/cond/scope/Mul", ("Mul", "cond/else/scope")),
        ("StatefulPartitionedCall/a/while/cond/_20/a/while/Less", ("Less", "a/while/cond")),
        ("PartitionedCall_3/dense/MatMul", ("MatMul", "dense")),
        ("model/StatefulPartitionedCall/dense/MatMul", ("MatMul", "model/dense")),
        ("while/body/_1/while/while/body/_9/while/while/mm", ("mm", "while/while/body")),
        (
            "gradient_tape/while/while_grad/body/_42/gradient_tape/while/gradients/while/mm_grad/MatMul",
            ("MatMul", f"while/mm_grad/{GRADIENT}"),
        ),
        ("__inference_train_step_2018", ("preparing a function", "train_step")),
        ("", ("unknown", "")),
    ],
)  # fmt: skip
def test_an_op_and_its_scope_are_read_from_tensorflows_name(
    op: str, scope_and_op: tuple[str, str]
) -> None:
    assert name_op(op, "", {}) == scope_and_op


def test_the_op_type_that_the_profiler_names_goes_before_the_nodes_own_name() -> None:
    assert name_op("block/mm", "", {"block/mm": "_MklMatMul"}) == ("MatMul", "block")


@pytest.mark.parametrize(
    ("op", "within", "scope_and_op"),
    [
        ("__inference_f_26", "CpuExecutable::ExecuteAsyncOnStream", ("XLA", "f")),
        ("__inference_f_26", "__inference_f_26:__inference_f_26", ("XLA", "f")),
        ("__inference_f_26", "EagerLocalExecute: __inference_f_26", ("preparing a function", "f")),
        ("", "CpuExecutable::ExecuteAsyncOnStream", ("XLA", "")),
        ("", "EagerLocalExecute: _EagerConst", ("_EagerConst", "")),
        ("", "tf.constant", ("tf.constant", "")),
        (
            "",
            "gradient_tape/model/dense/BiasAddGrad:BiasAddGrad",
            ("BiasAddGrad", f"model/dense/{GRADIENT}"),
        ),
    ],
)
def test_an_allocation_without_an_op_is_named_after_what_ran_around_it(
    op: str, within: str, scope_and_op: tuple[str, str]
) -> None:
    assert name_op(op, within, {}) == scope_and_op


def test_a_constant_folded_for_the_backward_pass_does_not_begin_it() -> None:
    story = Story().begin(Phase.FIRST_CALL).make(1, 8, op="gradient_tape/Tile")
    story.make(2, 100, op="dense/Relu", shape="[25]")
    story.make(3, 30, op="gradient_tape/dense/ReluGrad", shape="[5]").free(2).free(3).end()

    assert replayed(story.window()).split.gradient_bytes == 100


def test_a_group_says_which_scopes_it_comes_from() -> None:
    story = Story().begin(Phase.BUILD)
    story.make(1, 10, op="a/Mul").make(2, 10, op="b/Mul").make(3, 10, op="b/Mul_1").end()

    (group,) = replayed(story.window()).groups

    assert [(scope.scope, scope.count, scope.bytes) for scope in group.scopes] == [
        ("b", 2, 20),
        ("a", 1, 10),
    ]


def test_dtypes_have_names_and_an_unknown_one_says_so() -> None:
    assert [name_dtype(number) for number in (1, 14, 20, 0, -1, 777)] == [
        "float32", "bfloat16", "resource", "untyped", "untyped", "unknown (777)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("device", "names"),
    [
        ("cpu", {"bfc_cpu_allocator_for_gpu"}),
        ("gpu", {"GPU_0_bfc", "PluggableDevice_0_bfc"}),
    ],
)
def test_each_device_has_its_allocator(device: str, names: set[str]) -> None:
    others = {"mklcpu", "GPU_1_bfc", "GPU_01_bfc", "gpu_host_bfc", "GPU_0_bfc_host"}

    matching = {name for name in names | others if re.fullmatch(name_allocator(device), name)}

    assert matching == names


def test_all_of_it_is_plain_json() -> None:
    found = kept(replayed(*long_story(3, ())))

    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert {"op", "shape", "dtype", "count", "bytes", "share"} <= found["groups"][0].keys()
