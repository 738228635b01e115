"""What single ops allocate, in units of their [size, size] input (M), by what they have to do.

`kept` is what the result is made of, `asked` what the op asks for, but for the scalars and shapes
that it is told beside its tensors.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from runner import paths
from runner.config import build_checked
from runner.errors import BadInput
from runner.records import Record
from scenarios.ops import OPS, OpAllocation
from tests.conftest import MeasureWords

SIZE = 57  # a row of 57 floats ends off TensorFlow's alignment of 64 bytes
M = SIZE * SIZE * 4
SCALARS = 64


def run(measure: MeasureWords, op: str, *words: str, size: int = SIZE) -> Record:
    return measure("scenario=op_allocation", f"scenario.op={op}", f"scenario.size={size}", *words)


def assert_allocates(record: Record, asked: float, kept: float) -> None:
    assert record.metrics["allocated_bytes_per_step"] == pytest.approx(asked, abs=SCALARS)
    assert record.metrics["tensor_growth_bytes_per_step"] == kept


@pytest.mark.parametrize("op", ["constant", "zeros", "fill", "range", "random_uniform"])
def test_an_op_that_creates_allocates_shape_times_dtype(measure: MeasureWords, op: str) -> None:
    assert_allocates(run(measure, op), M, M)


def test_random_normal_passes_through_two_more_tensors(measure: MeasureWords) -> None:
    """The numbers, times the deviation, plus the mean; in eager mode each is a tensor."""
    assert_allocates(run(measure, "random_normal"), 3 * M, M)


def test_a_graph_holds_what_it_can_compute_beforehand(measure: MeasureWords) -> None:
    record = run(measure, "fill", "execution=graph")

    assert_allocates(record, 0, 0)
    assert record.metrics["tensor_live_bytes"] == M + 8  # its shape, two int32


VIEWS = ["identity", "reshape", "expand_dims", "bitcast", "cast_same", "stop_gradient"]


@pytest.mark.parametrize("op", [*VIEWS, "variable_read"])
def test_a_view_shares_its_source(measure: MeasureWords, op: str) -> None:
    assert_allocates(run(measure, op), 0, 0)


def test_a_slice_of_rows_is_copied_where_a_row_ends_off_the_alignment(
    measure: MeasureWords,
) -> None:
    rows = SIZE - SIZE // 2

    assert_allocates(run(measure, "slice_rows"), rows * SIZE * 4, rows * SIZE * 4)


def test_a_slice_of_rows_shares_its_source_where_rows_are_aligned(measure: MeasureWords) -> None:
    assert_allocates(run(measure, "slice_rows", size=64), 0, 0)


def test_a_slice_of_columns_is_always_copied(measure: MeasureWords) -> None:
    assert_allocates(run(measure, "slice_columns", size=64), 64 * 32 * 4, 64 * 32 * 4)


@pytest.mark.parametrize(
    ("op", "size_of_result"),
    [
        ("transpose", M),
        ("concat", 2 * M),
        ("gather", SIZE // 2 * SIZE * 4),
        ("tile", 2 * M),
        ("pad", M + SIZE * 4),
        ("one_hot", M),
        ("broadcast_to", M),
        ("cast_half", M / 2),
        ("matmul", M),
        ("softmax", M),
        ("reduce_sum", 4),
        ("argmax", SIZE * 8),
    ],
)
def test_an_op_that_computes_allocates_its_result(
    measure: MeasureWords, op: str, size_of_result: float
) -> None:
    assert_allocates(run(measure, op), size_of_result, size_of_result)


@pytest.mark.parametrize("execution", ["eager", "graph"])
@pytest.mark.parametrize("op", ["add", "relu", "tanh"])
def test_an_element_wise_op_leaves_its_input_alone(
    measure: MeasureWords, op: str, execution: str
) -> None:
    assert_allocates(run(measure, op, f"execution={execution}"), M, M)


@pytest.mark.parametrize("op", ["add_chain", "relu_chain", "tanh_chain", "mixed_chain"])
def test_in_a_chain_a_graph_passes_the_buffer_on_and_eager_mode_does_not(
    measure: MeasureWords, op: str
) -> None:
    """In eager mode the result of one op is alive while the next one makes its own."""
    eager = run(measure, op, "execution=eager")
    graph = run(measure, op, "execution=graph")

    assert_allocates(eager, 3 * M, M)
    assert eager.metrics["tensor_step_peak_bytes"] == 2 * M
    assert_allocates(graph, M, M)
    assert graph.metrics["tensor_step_peak_bytes"] == M


def test_sort_passes_through_three_more_tensors(measure: MeasureWords) -> None:
    """Ascending order is the order of the negatives: they, their largest, and those' indices."""
    assert_allocates(run(measure, "sort"), 4 * M, M)


def test_dropout_passes_through_its_random_numbers_and_its_mask(measure: MeasureWords) -> None:
    """Numbers M, the mask of bools M/4, the input scaled M, and what is left of it M."""
    assert_allocates(run(measure, "dropout"), 3.25 * M, M)


@pytest.mark.parametrize("execution", ["eager", "graph"])
@pytest.mark.parametrize("op", ["assign", "assign_add", "scatter_update", "scatter_add"])
def test_an_update_of_a_variable_is_in_place(
    measure: MeasureWords, op: str, execution: str
) -> None:
    """`assign` takes over the tensor that it is given, and so does not copy it either."""
    assert_allocates(run(measure, op, f"execution={execution}"), 0, 0)


def test_an_update_copies_a_variable_whose_value_somebody_holds(measure: MeasureWords) -> None:
    assert_allocates(run(measure, "read_then_assign_add"), M, M)


def test_every_op_of_the_table_runs_as_it_is_and_as_a_graph() -> None:
    program = """
from tests import lean_tensorflow
import tensorflow as tf
from scenarios.ops import INPUTS, OPS, OpAllocation

class Bench:
    def __init__(self, compile): self.compile = compile

for name in OPS:
    for compile in (lambda function: function, tf.function):
        step = OpAllocation(name, 5).build(Bench(compile))
        step(), step()
    print(name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout.split() == list(OPS), done.stderr[-2000:]


def test_the_named_sweep_takes_every_op_of_the_table() -> None:
    assert len(OPS) >= 40
    sweep = yaml.safe_load((paths.find_conf() / "experiment" / "op_allocation.yaml").read_text())
    params = sweep["hydra"]["sweeper"]["params"]

    assert [op.strip() for op in params["scenario.op"].split(",")] == list(OPS)


def test_a_mistyped_op_is_answered_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean 'transpose'"):
        build_checked(OpAllocation, {"op": "transposed", "size": 1}, "scenario")
