"""Training a Keras model: what the weights, Adam, the batch and its activations take, by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from runner.errors import BadInput
from runner.records import Record, Status
from runner.scenario import Bench, Executions, Step
from scenarios.training import KerasTraining
from tests.conftest import MeasureWords, RunScenario
from tests.versions import TENSORFLOW

HANDLE = 200
"""What TensorFlow allocates for a variable beside its value."""

ADAM = 2 * (4 + HANDLE)
"""Its learning rate and its count of updates; its slots come on top."""

WIDTH, LAYERS, OUTPUTS = 512, 8, 10  # of the MLP; its head is a layer more
W = WIDTH * WIDTH * 4
BIAS = WIDTH * 4
HEAD = (WIDTH + 1) * OUTPUTS * 4
VARIABLES = 2 * (LAYERS + 1)
WEIGHTS = LAYERS * (W + BIAS) + HEAD


_measured_already: dict[tuple[str, ...], Record] = {}


def training(measure: MeasureWords, batch_size: int, **fields: object) -> Record:
    """Return the record of one trial, the same to all that ask for the same. One op at a time, in
    a graph too: side by side they take more, on a busy machine most."""
    execution, seed = fields.pop("execution", "eager"), fields.pop("seed", 0)
    steps = fields.pop("steps", 3)
    words = [f"scenario.{name}={value}" for name, value in sorted(fields.items()) if value]
    fixed = ("scenario=keras_training", f"batch_size={batch_size}", f"execution={execution}")
    brief = (f"seed={seed}", "device.inter_op_threads=1", f"measure.memory_steps={steps}")
    said = (*fixed, *brief, *words)
    if said not in _measured_already:
        _measured_already[said] = measure(*said)
    return _measured_already[said]


def bytes_of(record: Record, metric: str) -> int:
    value = record.metrics[metric]
    assert isinstance(value, int)
    return value


STEPS_FOR_GROWTH = 5

PROCESSES = 7
"""Of a graph. Its ops come in another order in each, and in one of five what is computed again is
there before it is needed, and nothing is spared."""


class TestWhatStays:
    BATCH = 24
    DATA = BATCH * (WIDTH + OUTPUTS) * 4
    ADAMS = 3 * (WEIGHTS + VARIABLES * HANDLE) + ADAM

    @pytest.mark.parametrize("recompute", [False, True])
    @pytest.mark.parametrize("mixed_precision", [False, True])
    def test_is_the_weights_two_slots_each_and_the_data(
        self, measure: MeasureWords, recompute: bool, mixed_precision: bool
    ) -> None:
        """Computing again spares none of it, and mixed precision keeps variables in float32."""
        found = training(
            *(measure, self.BATCH),
            recompute=recompute,
            mixed_precision=mixed_precision,
            steps=STEPS_FOR_GROWTH,
        ).metrics

        assert found["tensor_live_bytes"] == self.ADAMS + self.DATA
        assert found["tensor_growth_bytes_per_step"] == 0
        assert found["tensor_retained_bytes"] == 0

    def test_is_one_more_copy_of_the_weights_where_gradients_accumulate(
        self, measure: MeasureWords
    ) -> None:
        found = training(measure, self.BATCH, accumulate=3, steps=STEPS_FOR_GROWTH).metrics

        sums = WEIGHTS + VARIABLES * HANDLE
        assert found["tensor_live_bytes"] == pytest.approx(self.ADAMS + sums + self.DATA, abs=64)
        assert found["tensor_growth_bytes_per_step"] == 0


class TestThePeak:
    """With a batch this large the activations, of A bytes each, decide where it lies."""

    BATCH = 2048
    A = BATCH * WIDTH * 4
    RESULT = BATCH * OUTPUTS * 4
    FROM_HEAD = RESULT + HEAD + 4
    """What is there besides when the gradient goes down: the result, the head's gradients, and the
    loss."""

    def test_holds_an_activation_for_each_layer(self, measure: MeasureWords) -> None:
        """And what came down to the last layer, and its relu's gradient."""
        record = training(measure, self.BATCH)

        expected = (LAYERS + 2) * self.A + self.FROM_HEAD
        assert bytes_of(record, "tensor_step_peak_bytes") == expected

    def test_holds_one_for_each_block_and_a_block_s_worth_where_it_computes_again(
        self, measure: MeasureWords
    ) -> None:
        """Four blocks of two layers; and what came down to the block, which TensorFlow 2.22 lets
        go, and within it, its relu's gradient, and the gradients of one layer."""
        record = training(measure, self.BATCH, recompute=True)

        came_down = 3 if TENSORFLOW < (2, 22) else 2
        expected = (4 + 2 + came_down) * self.A + W + BIAS + self.FROM_HEAD
        assert bytes_of(record, "tensor_step_peak_bytes") == expected

    def test_holds_activations_of_half_the_bytes_in_mixed_precision(
        self, measure: MeasureWords
    ) -> None:
        """And a copy of each weight in half the bytes. The head is in float32: what goes into it
        and what comes down from it take A each, and half an A once that is cast."""
        record = training(measure, self.BATCH, mixed_precision=True)

        expected = LAYERS * self.A // 2 + LAYERS * W // 2 + 2 * self.A + self.A // 2
        beside = 2 * self.RESULT + HEAD
        found = bytes_of(record, "tensor_step_peak_bytes")
        assert found == pytest.approx(expected + beside, abs=64)

    @pytest.mark.parametrize(
        ("model", "execution"),
        [("mlp", "xla"), ("cnn", "graph"), ("transformer", "graph"), ("transformer", "xla")],
    )
    def test_is_lower_where_blocks_are_computed_again(
        self, measure: MeasureWords, model: str, execution: str
    ) -> None:
        """In one process of several at least."""
        batch_size = 1024 if model == "mlp" else 16
        words = {"model": model, "execution": execution}
        plain = bytes_of(training(measure, batch_size, **words), "tensor_step_peak_bytes")

        assert any(
            bytes_of(
                training(measure, batch_size, **words, recompute=True, seed=seed),
                "tensor_step_peak_bytes",
            )
            < 0.8 * plain
            for seed in range(PROCESSES if execution == "graph" else 1)
        )

    @pytest.mark.parametrize(
        ("model", "execution"), [("cnn", "eager"), ("cnn", "graph"), ("mlp", "xla")]
    )
    def test_is_that_of_a_part_of_the_batch_where_gradients_accumulate(
        self, measure: MeasureWords, model: str, execution: str
    ) -> None:
        batch_size = 1024 if model == "mlp" else 32
        whole = training(measure, batch_size, model=model, execution=execution)
        parts = training(measure, batch_size, model=model, execution=execution, accumulate=4)

        least = 0.5 * bytes_of(whole, "tensor_step_peak_bytes")
        assert bytes_of(parts, "tensor_step_peak_bytes") < least

    @pytest.mark.parametrize("recompute", [False, True])
    def test_says_which_block_and_layer_it_is_made_of(
        self, measure: MeasureWords, recompute: bool
    ) -> None:
        record = training(measure, 16, model="transformer", execution="graph", recompute=recompute)

        assert record.allocations is not None
        scopes = [
            scope.scope
            for group in record.allocations.groups
            for scope in group.scopes
            if "attention" in scope.scope and scope.scope.startswith("transformer")
        ]
        assert scopes, "variables have names of their own, ops those of their layers"
        assert all("block_" in scope for scope in scopes)

    def test_keeps_the_activations_of_all_blocks_but_of_one_where_it_computes_again(
        self, measure: MeasureWords
    ) -> None:
        """Of the other block there is what it passes on, and what goes into it."""
        plain, again = (
            training(measure, 16, model="transformer", execution="graph", recompute=recompute)
            for recompute in (False, True)
        )

        state = 16 * 64 * 128 * 4
        assert min(activations_of_blocks(plain)) > 16 * state
        assert min(activations_of_blocks(again)) < 4 * state
        saved = plain.metrics["tensor_peak_bytes"] - again.metrics["tensor_peak_bytes"]
        assert saved > 12 * state
        assert plain.allocations is not None
        assert plain.allocations.split.gradient_bytes > 2 * 16 * state


def activations_of_blocks(record: Record) -> list[int]:
    """What was live at the peak of what each of the two blocks' layers made, gradients left out."""
    assert record.allocations is not None
    return [
        sum(
            scope.bytes
            for group in record.allocations.groups
            for scope in group.scopes
            if f"/{block}" in scope.scope and not scope.scope.endswith("(gradient)")
        )
        for block in ("block_0", "block_1")
    ]


class TestTheirModel:
    @pytest.mark.parametrize(
        ("name", "execution"), [("MODEL", "eager"), ("two_by_two", "graph"), ("classifier", "xla")]
    )
    def test_is_trained_by_its_import_path(
        self, measure: MeasureWords, name: str, execution: str
    ) -> None:
        record = training(
            measure,
            12,
            model=f"tests.integration.scenarios.their_models:{name}",
            execution=execution,
            recompute=True,
            mixed_precision=True,
            accumulate=2,
            steps=STEPS_FOR_GROWTH,
        )

        assert record.metrics["tensor_growth_bytes_per_step"] == 0

    def test_takes_its_weights_three_times_and_the_data(self, measure: MeasureWords) -> None:
        record = training(measure, 12, model="tests.integration.scenarios.their_models.MODEL")

        weights = 31 * 17 * 4 + 17 * 4 + 2 * HANDLE
        data = 12 * (31 + 17) * 4
        assert bytes_of(record, "tensor_live_bytes") == 3 * weights + ADAM + data

    @pytest.mark.parametrize(
        ("name", "execution"),
        [
            ("with_its_data", "eager"),
            ("with_its_dataset", "graph"),
            ("with_named_data", "eager"),
            ("built_for_its_shape", "eager"),
        ],
    )
    def test_a_subclass_is_trained_where_data_or_a_shape_say_what_it_takes(
        self, measure: MeasureWords, name: str, execution: str
    ) -> None:
        model = f"tests.integration.scenarios.their_models:{name}"
        plain = training(measure, 12, model=model, execution=execution)

        weights = 4 * (20 * 40 + 40 + 40 * 3 + 3) + 4 * HANDLE
        data = 12 * (20 + 3) * 4
        beside = 4 * (31 * 17 + 17) + 2 * HANDLE  # MODEL, which its module makes
        known = 3 * weights + ADAM + data + beside
        assert 0 <= bytes_of(plain, "tensor_live_bytes") - known < 100

    @pytest.mark.parametrize(
        ("model", "problem"),
        [
            ("perceptron", "'perceptron' is not a valid choice"),
            ("no_such_module:MODEL", "no module 'no_such_module'"),
            ("tests.integration.scenarios.their_models:MODELS", "no 'MODELS'"),
            ("tests.integration.scenarios.their_models:sized", "takes arguments"),
        ],
    )
    def test_is_refused_before_anything_runs_where_it_is_not_there(
        self, measure: MeasureWords, model: str, problem: str
    ) -> None:
        with pytest.raises(BadInput, match=problem):
            training(measure, 12, model=model)

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("NUMBER", "gives a int"),
            ("Unbuilt", "does not say what it takes. Let a function return it with a batch"),
            ("open_sided", "leaves a side open"),
            ("with_a_number", "there is a int, which has no shape with a batch"),
        ],
    )
    def test_fails_with_a_reason_where_it_can_t_be_trained(
        self, measure: MeasureWords, name: str, problem: str
    ) -> None:
        model = f"scenario.model=tests.integration.scenarios.their_models:{name}"
        record = measure("scenario=keras_training", model, fails=True)

        assert record.outcome.status is Status.FAILED
        assert problem in str(record.outcome.reason)


def test_a_batch_that_can_t_be_cut_into_equal_parts_is_refused(measure: MeasureWords) -> None:
    record = measure("scenario=keras_training", "scenario.accumulate=5", fails=True)

    assert "5 does not divide batch_size=32" in str(record.outcome.reason)


@dataclass(frozen=True)
class LossesOf:
    """Ten updates in `build`, each way; that they agree is checked there, in the child."""

    executions: ClassVar[Executions] = ("eager", "graph", "xla")

    def build(self, bench: Bench) -> Step:
        plain = self._losses(bench, recompute=False)
        again = self._losses(bench, recompute=True)
        assert plain[-1] < 0.7 * plain[0], f"it does not learn: {plain}"
        assert again == pytest.approx(plain, rel=1e-3), f"another gradient: {again}, not {plain}"
        return lambda: None

    def _losses(self, bench: Bench, recompute: bool) -> list[float]:
        step: Any = KerasTraining("mlp", False, recompute, 1).build(bench)
        return [float(step()) for _ in range(10)]


@pytest.mark.parametrize("execution", ["eager", "graph", "xla"])
def test_the_model_learns_and_computing_again_changes_no_gradient(
    run_scenario: RunScenario, execution: str
) -> None:
    trial = run_scenario(LossesOf(), execution=execution)

    assert trial.outcome.completed, trial.outcome
