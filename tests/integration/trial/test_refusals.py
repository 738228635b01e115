"""Where TensorFlow refuses a graph, or XLA an op, the reason begins with what to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from runner.records import Phase, Status
from tests.conftest import MeasureWords

_REFUSED = "tests.integration.trial.refused"

ADVICE = {
    "make_variable": "Make variables, layers, models and optimizers once, outside of the step.",
    "make_layer": "Make variables, layers, models and optimizers once, outside of the step.",
    "decide": "write tf.cond or tf.where in place of `if`",
    "unpack": "write tf.unstack, tf.map_fn, or a loop over tf.range",
    "call_numpy": "use TensorFlow's op of that name, or tf.numpy_function",
    "read_value": "call `.numpy()` outside of the step",
    "count_in_python": "count with tf.range",
    "keep": "return it from the function",
    "give_in_one_branch": "Give each name a value on every way",
    "return_in_one_branch": "return on every way or on none",
    "grow_in_a_loop": "collect parts in a tf.TensorArray",
    "return_an_object": "A tf.function returns tensors or None",
    "fetch_a_batch": "fetch the batch outside of the compiled part, and pass it in.",
    "call_python": "XLA cannot compile Python code (tf.py_function, tf.numpy_function)",
    "take_text": "XLA has no strings",
    "decompose": "XLA cannot compile the op Eig: do it before the compiled part",
    "differentiate_a_loop": "give tf.while_loop its maximum_iterations",
    "size_by_chance": "pass a size as a Python number",
}


@pytest.fixture(scope="module")
def reasons() -> dict[str, str]:
    """What became of each step: all are refused in one process."""
    command = [sys.executable, "-m", _REFUSED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("step", ADVICE)
def test_a_refusal_says_first_what_to_do(reasons: dict[str, str], step: str) -> None:
    first, _, said = reasons[step].partition("\n")
    assert ADVICE[step] in first
    assert "refused.py:" in first
    assert "Error: " in said


def test_what_xla_says_stays_where_it_quotes_a_stack(reasons: dict[str, str]) -> None:
    assert "XLA compilation requires a fixed tensor list" in reasons["differentiate_a_loop"]
    assert "must be a compile-time constant" in reasons["size_by_chance"]


def test_a_steps_refusal_is_in_its_record(measure: MeasureWords) -> None:
    target = f"scenario.target={_REFUSED}:fetch_a_batch"
    record = measure("scenario=callable", target, "execution=xla", fails=True)
    assert (record.outcome.status, record.outcome.phase) == (Status.FAILED, Phase.FIRST_CALL)
    assert record.outcome.reason is not None
    assert record.outcome.reason.startswith("XLA cannot compile a data pipeline: fetch the batch")
    assert "No registered 'IteratorGetNext'" in record.outcome.reason
