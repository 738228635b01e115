"""What graphs and sessions hold, and since when. V is the vector of 7,777 floats."""

from __future__ import annotations

import numpy as np
import pytest

from runner.config import build_checked
from runner.errors import BadInput
from runner.records import Phase, Record
from scenarios.sessions import SessionLoop, misaligned
from tests.conftest import MeasureWords

V = 7777 * 4
VARIABLE = 57 * 57 * 4 + 200
"""A value, and the handle that TensorFlow allocates beside it."""

NODES = 3 * (8 + 8)
"""Of three scopes: the shape to fill and the axes to sum, two int32 each, which the graph keeps."""


def loop(measure: MeasureWords, *words: str) -> Record:
    words = tuple(f"scenario.{word}" for word in words)
    return measure("scenario=session_loop", "scenario.elements=7777", *words)


def deferred(measure: MeasureWords, holds: str) -> Record:
    words = ("scenario.elements=7777", f"scenario.holds={holds}")
    return measure("scenario=deferred_allocation", *words)


def scopes(measure: MeasureWords, execution: str, *words: str) -> Record:
    run = ("scenario=variable_scope", f"execution={execution}")
    return measure(*run, "scenario.size=57", "scenario.scopes=3", *words)


def live_after(record: Record, phase: Phase) -> float | None:
    return record.trials[0].figures(phase).tensor_live_bytes


# session_loop


@pytest.mark.parametrize(("graph", "nodes"), [("grown", 2), ("fixed", 0), ("fresh", 0)])
def test_only_ops_made_in_the_loop_make_its_graph_grow(
    measure: MeasureWords, graph: str, nodes: int
) -> None:
    """By a constant and its square. The tensors are gone with the session of each step."""
    found = loop(measure, f"graph={graph}").metrics

    assert found["graph_nodes_per_step"] == nodes
    assert found["tensor_growth_bytes_per_step"] == 0
    assert found["tensor_live_bytes"] == 0
    assert found["tensor_peak_bytes"] == 3 * V  # the constant, its square, and that as a constant


def test_deleting_the_names_of_ops_changes_nothing(measure: MeasureWords) -> None:
    deleted, kept = loop(measure, "delete=true").metrics, loop(measure, "delete=false").metrics

    assert deleted == kept


def test_a_shared_session_keeps_the_constant_of_every_step(measure: MeasureWords) -> None:
    """The square of a constant is one itself, once the session has optimized the graph."""
    found = loop(measure, "session=shared").metrics

    assert found["tensor_growth_bytes_per_step"] == V
    assert found["tensor_retained_bytes"] == 0


def test_a_shared_session_with_a_fixed_graph_allocates_nothing_more(measure: MeasureWords) -> None:
    found = loop(measure, "graph=fixed", "session=shared").metrics

    assert found["allocated_bytes_per_step"] == 0
    assert found["tensor_live_bytes"] == V


def test_a_growing_graph_grows_on_the_host_by_its_constants_and_more(measure: MeasureWords) -> None:
    words = ("scenario=session_loop", "scenario.elements=1000", "measure.max_seconds=11")

    def growth(graph: str) -> float | None:
        timing = (f"scenario.graph={graph}", "measure.timing_processes=1")
        found = measure(*words, *timing, timing=True, memory=False)
        return found.metrics["host_growth_bytes_per_step"]

    assert not growth("fixed"), "none, or too little to tell from none"
    grown = growth("grown")
    assert grown is not None
    assert grown > 1000 * 4


def test_a_fresh_graph_can_not_share_a_session() -> None:
    values = {"elements": 1, "graph": "fresh", "session": "shared", "delete": False}

    with pytest.raises(BadInput, match="graph=fresh needs session=per_step"):
        build_checked(SessionLoop, values, "scenario")


# deferred_allocation


ONE = 4
"""Bytes of the scalar that `ones_initializer` writes into the graph, which keeps it."""


@pytest.mark.parametrize(
    ("holds", "scalars"), [("placeholder", 0), ("constant", 0), ("variable", ONE)]
)
def test_making_a_graph_allocates_its_scalars_alone(
    measure: MeasureWords, holds: str, scalars: int
) -> None:
    assert deferred(measure, holds).trials[0].figures(Phase.BUILD).allocated_bytes == scalars


def test_a_placeholder_takes_memory_while_the_session_runs(measure: MeasureWords) -> None:
    """What is fed is copied, because it does not lie where TensorFlow could share it."""
    record = deferred(measure, "placeholder")

    assert record.metrics["tensor_step_peak_bytes"] == 2 * V
    assert record.metrics["tensor_live_bytes"] == 0


def test_a_constant_is_allocated_by_the_first_run_and_stays(measure: MeasureWords) -> None:
    record = deferred(measure, "constant")

    assert live_after(record, Phase.FIRST_CALL) == V
    assert record.metrics["allocated_bytes_per_step"] == 0


def test_a_variable_is_allocated_by_its_initializer(measure: MeasureWords) -> None:
    record = deferred(measure, "variable")

    assert live_after(record, Phase.FIRST_CALL) == V + 200 + ONE
    assert record.metrics["tensor_step_peak_bytes"] == V  # its square


def test_what_is_fed_lies_off_the_alignment_wherever_it_came_from() -> None:
    for length in range(1, 40):
        values = np.arange(length, dtype=np.float32)

        moved = misaligned(values)

        assert (moved == values).all()
        assert moved.ctypes.data % 64 == 4


# variable_scope


def test_one_name_in_three_scopes_is_three_variables(measure: MeasureWords) -> None:
    """Each is there twice while it is initialized: the graph optimizer has computed the value
    beforehand, and the session keeps it. Plain Python under the profiler needs as much."""
    record = scopes(measure, "session")

    assert live_after(record, Phase.BUILD) == NODES
    assert record.metrics["tensor_peak_bytes"] == 6 * 57 * 57 * 4 + NODES
    assert record.metrics["tensor_live_bytes"] == NODES


def test_a_session_that_is_not_closed_holds_its_variables_until_it_is_dropped(
    measure: MeasureWords,
) -> None:
    record = scopes(measure, "session", "scenario.close_session=false")

    assert record.metrics["tensor_live_bytes"] == pytest.approx(3 * VARIABLE, abs=64)
    assert record.metrics["tensor_growth_bytes_per_step"] == 0
    assert record.metrics["tensor_retained_bytes"] == NODES


def test_in_eager_mode_get_variable_allocates_at_once(measure: MeasureWords) -> None:
    record = scopes(measure, "eager")

    assert live_after(record, Phase.BUILD) == 3 * VARIABLE
    assert record.metrics["tensor_step_peak_bytes"] == pytest.approx(0, abs=64)  # the sums
