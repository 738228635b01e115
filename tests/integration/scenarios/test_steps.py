"""What a loop in eager mode holds, by how each step lets go. V is a vector of 7,777 floats."""

from __future__ import annotations

import pytest

from runner.records import Record
from tests.conftest import MeasureWords

V = 7777 * 4
FILL = 4
"""tf.ones gives its value to an op: a scalar of its own, for a moment."""

M = 57 * 57 * 4
HANDLE = 200
"""What TensorFlow allocates for a variable beside its value."""
SCALARS = 64
"""More than the scalars and shapes that a gradient passes around, less than anything of size."""


def tensors(measure: MeasureWords, release: str) -> Record:
    return measure(
        "scenario=tensor_per_step", "scenario.elements=7777", f"scenario.release={release}"
    )


def variables(measure: MeasureWords, release: str) -> Record:
    return measure("scenario=variable_per_step", "scenario.size=57", f"scenario.release={release}")


@pytest.mark.parametrize("release", ["rebind", "delete", "numpy", "keep"])
def test_every_step_makes_a_vector_and_its_square(measure: MeasureWords, release: str) -> None:
    found = tensors(measure, release).metrics

    assert found["allocated_bytes_per_step"] == 2 * V + FILL
    assert found["tensor_retained_bytes"] == 0


def test_names_hold_the_last_iteration_until_they_are_bound_anew(measure: MeasureWords) -> None:
    """When a vector is made, the last vector and square are still there: 3 V."""
    found = tensors(measure, "rebind").metrics

    assert found["tensor_live_bytes"] == 2 * V
    assert found["tensor_peak_bytes"] == 3 * V + FILL
    assert found["tensor_growth_bytes_per_step"] == 0


def test_del_lowers_the_peak_and_there_was_no_growth_to_cure(measure: MeasureWords) -> None:
    found = tensors(measure, "delete").metrics

    assert found["tensor_live_bytes"] == 0
    assert found["tensor_peak_bytes"] == 2 * V
    assert found["tensor_growth_bytes_per_step"] == 0


def test_numpy_releases_nothing(measure: MeasureWords) -> None:
    with_numpy, without = tensors(measure, "numpy"), tensors(measure, "rebind")

    for name in ("tensor_live_bytes", "tensor_peak_bytes", "tensor_growth_bytes_per_step"):
        assert with_numpy.metrics[name] == without.metrics[name]


def test_a_list_keeps_one_square_a_step(measure: MeasureWords) -> None:
    """After n steps and the first call: n + 1 squares, and the vector that a name holds."""
    record = tensors(measure, "keep")
    steps = record.spec.measure.memory_steps

    assert record.metrics["tensor_growth_bytes_per_step"] == V
    assert record.metrics["tensor_live_bytes"] == (steps + 1) * V + V


def test_a_variable_is_freed_when_its_name_is_bound_anew(measure: MeasureWords) -> None:
    """The new one is made beside the old one, and takes over the tensor that it starts from."""
    found = variables(measure, "rebind").metrics

    assert found["tensor_growth_bytes_per_step"] == 0
    assert found["tensor_live_bytes"] == pytest.approx(M + HANDLE, abs=SCALARS)
    assert found["tensor_peak_bytes"] == pytest.approx(2 * (M + HANDLE), abs=SCALARS)


def test_a_deleted_variable_leaves_nothing(measure: MeasureWords) -> None:
    """At the peak there are the variable and its gradient."""
    found = variables(measure, "delete").metrics

    assert found["tensor_growth_bytes_per_step"] == 0
    assert found["tensor_live_bytes"] == pytest.approx(0, abs=SCALARS)
    assert found["tensor_peak_bytes"] == pytest.approx(2 * M + HANDLE, abs=SCALARS)


def test_a_list_keeps_one_variable_a_step(measure: MeasureWords) -> None:
    assert variables(measure, "keep").metrics["tensor_growth_bytes_per_step"] == M + HANDLE


def test_one_variable_reused_spares_the_handle_and_nothing_else(measure: MeasureWords) -> None:
    reused, made = variables(measure, "reuse").metrics, variables(measure, "rebind").metrics

    assert reused["tensor_growth_bytes_per_step"] == 0
    assert made["allocated_bytes_per_step"] == pytest.approx(2 * M + HANDLE, abs=SCALARS)
    assert reused["allocated_bytes_per_step"] == pytest.approx(2 * M, abs=SCALARS)
