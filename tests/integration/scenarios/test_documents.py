"""Which of the documents' examples fail, and in what words."""

from __future__ import annotations

import pytest

from runner.config import build_checked
from runner.errors import BadInput
from runner.records import Phase, Status
from scenarios.documents import EXAMPLES, DocumentExample
from tests.conftest import MeasureWords

FAIL = {
    ("layers_in_function", "graph"): "only supports singleton tf.Variables",
    ("layers_in_function", "xla"): "only supports singleton tf.Variables",
    ("custom_gradient_in_sequential", "eager"): "Only instances of `keras.Layer` can be added",
    ("custom_gradient_of_layer", "eager"): "must accept keyword argument 'variables'",
    ("custom_gradient_of_layer", "graph"): "must accept keyword argument 'variables'",
    ("gradients_in_custom_gradient", "eager"): "tf.gradients is not supported when eager",
    ("memory_info_without_device", "eager"): "missing 1 required positional argument: 'device'",
    ("eager_by_switch", "session"): "object has no attribute 'numpy'",
    ("eager_after_graph", "session"): "must be called at program startup",
    ("session_with_eager_variables", "eager"): "Attempting to capture an EagerTensor",
}
WORK = {("gradients_in_custom_gradient", "graph"), ("eager_without_switch", "eager")}


@pytest.mark.parametrize(("example", "execution"), FAIL)
def test_an_example_fails_and_the_record_says_what_tensorflow_said(
    measure: MeasureWords, example: str, execution: str
) -> None:
    words = (f"scenario.example={example}", f"execution={execution}")
    record = measure("scenario=document_example", *words, fails=True)

    assert record.outcome.status is Status.FAILED
    assert record.outcome.phase == Phase.FIRST_CALL
    assert record.outcome.reason is not None
    assert FAIL[example, execution] in record.outcome.reason


@pytest.mark.parametrize(("example", "execution"), sorted(WORK))
def test_its_counterpart_works(measure: MeasureWords, example: str, execution: str) -> None:
    words = (f"scenario.example={example}", f"execution={execution}")

    assert measure("scenario=document_example", *words).outcome.completed


def test_every_example_is_accounted_for_in_every_execution() -> None:
    table = {(name, each) for name, (executions, _) in EXAMPLES.items() for each in executions}

    assert table == {*FAIL, *WORK}


def test_a_mistyped_example_is_answered_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean 'layers_in_function'"):
        build_checked(DocumentExample, {"example": "layer_in_function"}, "scenario")
