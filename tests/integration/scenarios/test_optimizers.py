"""What optimizers keep. M is the variable's [57, 57] floats; a slot is a variable like it."""

from __future__ import annotations

import pytest

from runner.records import Record
from tests.conftest import MeasureWords
from tests.versions import TENSORFLOW

M = 57 * 57 * 4
HANDLE = 200
"""What TensorFlow allocates for a variable beside its value."""
SCALAR = 4 + HANDLE
VECTOR = 57 * 4 + HANDLE
SLOT = M + HANDLE

NO_SLOTS = SLOT + M + 2 * SCALAR
"""The variable, the gradient, the learning rate and the count of iterations."""

SLOTS = {
    "sgd": 0,
    "momentum": SLOT,
    "rmsprop": SLOT,
    "adagrad": SLOT,
    "adam": 2 * SLOT,
    "adamw": 2 * SLOT,
    "nadam": 2 * SLOT + SCALAR,  # the product of its momentum schedule
    "amsgrad": 3 * SLOT,
    "adafactor": SLOT + 2 * VECTOR,  # Keras factors the second moment and keeps a whole one too
    "lion": SLOT,
}


def run(measure: MeasureWords, optimizer: str, execution: str = "eager") -> Record:
    words = ("scenario.size=57", f"scenario.optimizer={optimizer}", f"execution={execution}")
    return measure("scenario=optimizer_slots", *words)


@pytest.mark.parametrize("optimizer", SLOTS)
def test_an_optimizer_keeps_its_slots_and_nothing_else(
    measure: MeasureWords, optimizer: str
) -> None:
    found = run(measure, optimizer).metrics

    assert found["tensor_live_bytes"] == NO_SLOTS + SLOTS[optimizer]
    assert found["tensor_growth_bytes_per_step"] == 0
    assert found["tensor_retained_bytes"] == 0


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adafactor"])
def test_a_graph_keeps_the_same_slots_and_its_constants(
    measure: MeasureWords, optimizer: str
) -> None:
    live = run(measure, optimizer, "graph").metrics["tensor_live_bytes"]

    assert live is not None
    assert 0 <= live - NO_SLOTS - SLOTS[optimizer] < 128


def test_plain_descent_passes_through_one_tensor(measure: MeasureWords) -> None:
    """The gradient times the learning rate; the subtraction is in place."""
    found = run(measure, "sgd").metrics

    assert found["tensor_step_peak_bytes"] == M
    assert found["allocated_bytes_per_step"] == pytest.approx(M, abs=64)


def test_a_graph_holds_what_it_captured_after_release(measure: MeasureWords) -> None:
    """All but the gradient: TensorFlow registers a custom gradient that Keras runs, for good;
    since 2.22 it does not."""
    found = run(measure, "adam", "graph").metrics

    assert found["tensor_live_bytes"] is not None
    held = found["tensor_live_bytes"] - M if TENSORFLOW < (2, 22) else 0
    assert found["tensor_retained_bytes"] == pytest.approx(held, abs=128)
