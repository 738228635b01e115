"""Each rule that says where an allocation comes from, on hand-made recordings."""

from __future__ import annotations

import numpy as np
import pytest

from runner.meters.tensor.origins import PIPELINE, UNRECORDED, AllocationEvent, OriginFinder
from runner.meters.tensor.python_stacks import CodeLine
from runner.meters.tensor.recording import AMBIGUOUS, Node, Recording, Site, ThreadLog
from runner.meters.tensor.window import MARKING, NONE

STEP, LAYER, LIBRARY, MAPPED, BATCHED, LOOP = range(6)
"""Stacks by number."""


class HandMadeStacks:
    def list_frames(self, number: int) -> tuple[CodeLine, ...]:
        return (CodeLine("mine.py", 10 + number, "step"),)

    def is_library(self, number: int) -> bool:
        return number == LIBRARY


class BatchDataset:
    def _inputs(self) -> tuple[object, ...]:
        return ()


def node(stack: int, kind: str = "MatMul", is_backward: bool = False) -> Node:
    return Node(stack, is_backward, is_known=is_backward, type=kind, outputs=())


@pytest.fixture
def recording() -> Recording:
    recording = Recording(HandMadeStacks())
    recording.nodes = {
        "dense/MatMul": {"train_step": node(LAYER)},
        "gradient_tape/Exp": {"train_step": node(STEP, "Exp", is_backward=True)},
        "Mul": {"Dataset_map_7": node(MAPPED, "Mul")},
    }
    batched = BatchDataset()
    recording.pipelines.note_stage(batched, BATCHED)
    recording.pipelines.note_iteration(batched, LOOP)
    return recording


def at(recording: Recording, stack: int, called: str, scope: str = "") -> int:
    return recording.number_site(Site(stack, scope, called, is_backward=False))


def line(recording: Recording, event: AllocationEvent) -> int | None:
    """The line less 10 is the stack's number."""
    frames = OriginFinder(recording).find(event).frames
    return frames[-1].line - 10 if frames else None


def test_without_a_recorder_nothing_is_known() -> None:
    assert OriginFinder(Recording()).find(AllocationEvent(NONE, "MatMul")) == UNRECORDED


def test_an_eager_op_has_the_line_that_calls_it_and_its_layer(recording: Recording) -> None:
    found = OriginFinder(recording).find(
        AllocationEvent(at(recording, STEP, "MatMul", "dense/"), "MatMul")
    )
    assert (found.frames[-1].line, found.scope, found.called) == (10 + STEP, "dense", "MatMul")


def test_a_graph_s_node_has_the_line_that_made_it(recording: Recording) -> None:
    site = at(recording, STEP, "__inference_train_step_12")
    assert line(recording, AllocationEvent(site, "dense/MatMul")) == LAYER
    assert line(recording, AllocationEvent(NONE, "dense/MatMul")) == LAYER


def test_a_gradient_has_the_line_of_what_it_differentiates(recording: Recording) -> None:
    site = at(recording, STEP, "__inference_train_step_12")
    event = AllocationEvent(site, "gradient_tape/dense/MatMul/MatMul_1")
    assert line(recording, event) == LAYER
    assert OriginFinder(recording).find(event).is_backward


def test_a_gradient_that_the_user_wrote_has_its_own_line(recording: Recording) -> None:
    site = at(recording, LIBRARY, "__backward_train_step_13")
    assert line(recording, AllocationEvent(site, "gradient_tape/Exp")) == STEP


def test_a_function_that_only_a_library_calls_has_the_line_of_its_first_node(
    recording: Recording,
) -> None:
    site = at(recording, LIBRARY, "__inference_train_step_12")
    assert line(recording, AllocationEvent(site, "unheard_of")) == LAYER


def test_a_stage_of_a_pipeline_has_its_own_line(recording: Recording) -> None:
    path = "Iterator::Root::BatchV2"
    assert line(recording, AllocationEvent(NONE, stages=path)) == BATCHED
    assert line(recording, AllocationEvent(NONE, "Mul", stages=path)) == MAPPED
    assert line(recording, AllocationEvent(NONE, on_data_thread=True)) == LOOP
    assert OriginFinder(recording).find(AllocationEvent(NONE, stages=path)).called == PIPELINE


def test_a_pipeline_s_function_has_its_line_on_the_thread_that_asks_too(
    recording: Recording,
) -> None:
    assert line(recording, AllocationEvent(at(recording, STEP, "IteratorGetNext"), "Mul")) == MAPPED
    assert line(recording, AllocationEvent(at(recording, STEP, "Mul"), "Mul")) == STEP


def test_a_data_thread_s_is_the_pipeline_s_where_only_a_library_calls(recording: Recording) -> None:
    site = at(recording, LIBRARY, "Square")
    assert line(recording, AllocationEvent(site, "Square", on_data_thread=True)) == LOOP
    assert line(recording, AllocationEvent(site, "Square")) == LIBRARY


@pytest.mark.parametrize(
    ("site", "why"),
    [(NONE, "no call into TensorFlow was under way"), (AMBIGUOUS, "several threads were")],
)
def test_what_nobody_calls_says_why_it_has_no_line(
    recording: Recording, site: int, why: str
) -> None:
    found = OriginFinder(recording).find(AllocationEvent(site, "unheard_of"))
    assert not found.frames
    assert (found.why or "").startswith(why)


# Who was calling, by thread and time.


def log(recording: Recording, thread: int, *events: tuple[int, int]) -> None:
    log = recording.logs.setdefault(thread, ThreadLog(thread))
    for time, site in events:
        log.times.append(time)
        log.sites.append(site)


def sites(recording: Recording, thread: int, *times: int, op: str = "MatMul") -> list[int]:
    asked = np.array(times, np.int64)
    threads = np.full(asked.size, thread, np.int64)
    return recording.find_sites(threads, asked, [op] * asked.size).tolist()


def test_a_thread_is_at_the_site_that_it_entered_last(recording: Recording) -> None:
    outer, inner = at(recording, STEP, "MatMul"), at(recording, LAYER, "Square")
    log(recording, MARKING, (10, outer), (20, inner), (30, outer), (40, NONE))
    assert sites(recording, MARKING, 5, 10, 25, 35, 45) == [NONE, outer, inner, outer, NONE]


def test_a_thread_of_tensorflow_s_works_for_the_one_that_calls(recording: Recording) -> None:
    one, other = at(recording, STEP, "MatMul"), at(recording, LAYER, "Square")
    log(recording, MARKING, (10, one), (40, NONE))
    log(recording, 7, (20, other), (30, NONE))
    assert sites(recording, 99, 15) == [one]
    assert sites(recording, 99, 25) == [one]  # it called this op
    assert sites(recording, 99, 25, op="Tanh") == [AMBIGUOUS]
    assert sites(recording, 99, 15, op="Tanh") == [NONE]  # what is called runs no Tanh


def test_what_no_later_window_asks_for_is_forgotten(recording: Recording) -> None:
    site = at(recording, STEP, "MatMul")
    log(recording, MARKING, (10, site), (20, NONE), (30, site))
    recording.forget(25)
    assert list(recording.logs[MARKING].times) == [20, 30]
    assert sites(recording, MARKING, 26, 31) == [NONE, site]
