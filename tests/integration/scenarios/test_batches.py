"""What a batch leaves behind, in bytes: A an activation, W a weight, and what each method keeps.

The batch and the weights are made in `build`. A is larger than W, so that activations decide where
the peak lies.
"""

from __future__ import annotations

import pytest

from runner.records import Status
from tests.conftest import MeasureWords
from tests.versions import TENSORFLOW

BATCH, WIDTH = 211, 37
A = BATCH * WIDTH * 4
W = WIDTH * WIDTH * 4
BIAS = WIDTH * 4
HANDLE = 200
"""What TensorFlow allocates for a variable beside its value."""
WORKSPACE = 0 if TENSORFLOW < (2, 22) else 896
"""What a graph's product takes while it runs: since 2.22 TensorFlow's own allocator is asked."""


def measured(measure: MeasureWords, scenario: str, **fields: object) -> dict[str, float | None]:
    execution = fields.pop("execution", "eager")
    words = [f"scenario.{name}={str(value).lower()}" for name, value in fields.items()]
    fixed = (f"scenario={scenario}", f"batch_size={BATCH}", f"scenario.width={WIDTH}")
    return measure(*fixed, f"execution={execution}", *words).metrics


class TestDenseBatch:
    DEPTH = 5
    BUILT = A + DEPTH * (W + BIAS + 2 * HANDLE)

    def dense(self, measure: MeasureWords, **fields: object) -> dict[str, float | None]:
        return measured(measure, "dense_batch", depth=self.DEPTH, **fields)

    def test_in_eager_mode_a_layer_holds_what_goes_in_and_two_results(
        self, measure: MeasureWords
    ) -> None:
        """The product, the sum with the bias, then relu: each a tensor, two of them at a time."""
        found = self.dense(measure)

        assert found["tensor_live_bytes"] == self.BUILT
        assert found["tensor_step_peak_bytes"] == 3 * A
        assert found["allocated_bytes_per_step"] == 3 * self.DEPTH * A

    def test_as_a_graph_a_layer_is_one_op_with_one_result(self, measure: MeasureWords) -> None:
        found = self.dense(measure, execution="graph")

        assert found["tensor_step_peak_bytes"] == 2 * A + WORKSPACE  # what goes in and comes out
        assert found["allocated_bytes_per_step"] == self.DEPTH * (A + WORKSPACE)

    def test_xla_takes_two_buffers_in_turn(self, measure: MeasureWords) -> None:
        assert self.dense(measure, execution="xla")["allocated_bytes_per_step"] == 2 * A

    @pytest.mark.parametrize(
        ("execution", "beside"), [("eager", A), ("graph", WORKSPACE), ("xla", DEPTH * 8)]
    )
    def test_keeping_activations_costs_one_for_each_layer(
        self, measure: MeasureWords, execution: str, beside: int
    ) -> None:
        """In eager mode, two results of the last layer beside those of the four before. XLA adds
        a pointer to each of its results."""
        found = self.dense(measure, keep_activations=True, execution=execution)

        assert found["tensor_step_peak_bytes"] == self.DEPTH * A + beside

    def test_a_tape_keeps_one_activation_for_each_layer(self, measure: MeasureWords) -> None:
        """The peak is in the gradient of the last layer but one: what came down to it, its relu's
        gradient, and the last layer's gradients are there beside all that was kept."""
        found = self.dense(measure, gradient="tape")

        assert found["tensor_step_peak_bytes"] == (self.DEPTH + 2) * A + W + BIAS
        assert found["tensor_live_bytes"] == self.BUILT

    def test_a_caller_that_keeps_activations_holds_them_until_the_last_gradient(
        self, measure: MeasureWords
    ) -> None:
        found = self.dense(measure, gradient="tape", keep_activations=True)

        below_the_first = (self.DEPTH - 1) * (W + BIAS)
        assert found["tensor_step_peak_bytes"] == (self.DEPTH + 2) * A + below_the_first

    def test_a_graph_keeps_the_ones_that_its_gradient_starts_from(
        self, measure: MeasureWords
    ) -> None:
        """Their shape is known, so they are made once, with the graph."""
        found = self.dense(measure, gradient="tape", execution="graph")

        assert found["tensor_live_bytes"] == pytest.approx(self.BUILT + A, abs=64)

    def test_layers_made_inside_are_paid_for_in_every_step(self, measure: MeasureWords) -> None:
        """In eager mode. They refer to themselves, so they stay until Python's collector runs."""
        found = self.dense(measure, layers="inside")
        live, allocated = found["tensor_live_bytes"], found["allocated_bytes_per_step"]
        layer = W + BIAS + 2 * HANDLE

        assert live is not None
        assert allocated == pytest.approx(self.DEPTH * (3 * A + layer), abs=self.DEPTH * 32)
        assert (live - A) % layer == 0

    @pytest.mark.parametrize("execution", ["graph", "xla"])
    def test_layers_made_inside_are_refused_by_a_graph(
        self, measure: MeasureWords, execution: str
    ) -> None:
        record = measure(
            "scenario=dense_batch", "scenario.layers=inside", f"execution={execution}", fails=True
        )

        assert record.outcome.status is Status.FAILED
        assert record.outcome.phase == "first_call"
        assert "only supports singleton tf.Variables created on the first call" in str(
            record.outcome.reason
        )


class TestTape:
    @pytest.mark.parametrize("depth", [3, 8])
    def test_it_keeps_one_activation_for_each_layer(
        self, measure: MeasureWords, depth: int
    ) -> None:
        """At the peak there are beside them what came down to the last layer but one, the gradient
        of its relu, and the gradient by the last weight."""
        found = measured(measure, "tape", depth=depth)

        assert found["tensor_step_peak_bytes"] == (depth + 2) * A + W
        assert found["tensor_live_bytes"] == A + depth * (W + HANDLE)

    @pytest.mark.parametrize("depth", [3, 8])
    def test_a_persistent_tape_holds_them_to_the_end_of_the_gradient(
        self, measure: MeasureWords, depth: int
    ) -> None:
        """So the peak is in the first layer, with the gradients by all other weights there."""
        found = measured(measure, "tape", depth=depth, persistent=True)

        assert found["tensor_step_peak_bytes"] == (depth + 2) * A + (depth - 1) * W

    @pytest.mark.parametrize("persistent", [False, True])
    @pytest.mark.parametrize("release", ["delete", "scope"])
    def test_a_tape_that_nobody_holds_leaves_nothing(
        self, measure: MeasureWords, persistent: bool, release: str
    ) -> None:
        found = measured(measure, "tape", depth=4, persistent=persistent, release=release)

        assert found["tensor_live_bytes"] == A + 4 * (W + HANDLE)
        assert found["tensor_growth_bytes_per_step"] == 0

    def test_a_persistent_tape_that_is_held_grows_by_its_activations(
        self, measure: MeasureWords
    ) -> None:
        found = measured(measure, "tape", depth=4, persistent=True, release="keep")

        assert found["tensor_growth_bytes_per_step"] == 4 * A
        assert found["tensor_retained_bytes"] == 0

    def test_a_tape_that_was_used_up_is_empty_even_if_it_is_held(
        self, measure: MeasureWords
    ) -> None:
        found = measured(measure, "tape", depth=4, persistent=False, release="keep")

        assert found["tensor_growth_bytes_per_step"] == 0


class TestGradientMethod:
    def method(
        self, measure: MeasureWords, method: str, **fields: object
    ) -> dict[str, float | None]:
        return measured(measure, "gradient_method", method=method, **fields)

    def test_plain_keeps_every_activation(self, measure: MeasureWords) -> None:
        found = self.method(measure, "plain", depth=20)

        assert found["tensor_step_peak_bytes"] == (20 + 2) * A + W

    def test_a_custom_gradient_keeps_every_activation_of_the_forward_pass(
        self, measure: MeasureWords
    ) -> None:
        """The tape records what runs inside it as well: 19 results, the last product and its relu.
        The gradient needs none of that, so it is let go of before the blocks run again."""
        found = self.method(measure, "custom", depth=20)

        assert found["tensor_step_peak_bytes"] == (20 + 1) * A

    @pytest.mark.parametrize("method", ["custom_stop_recording", "recompute"])
    @pytest.mark.parametrize(("depth", "block"), [(20, 5), (12, 3)])
    def test_stopping_the_tape_keeps_one_activation_for_each_block(
        self, measure: MeasureWords, method: str, depth: int, block: int
    ) -> None:
        """At the peak, in the last block but one: what each block returned, one block's worth, what
        came down to the block, what came down within it and its relu's gradient; and the gradients
        by the last block's weights, which TensorFlow lets go since 2.22, and by one more."""
        found = self.method(measure, method, depth=depth, block=block)

        blocks = depth // block
        by_weights = block + 1 if TENSORFLOW < (2, 22) else 1
        assert found["tensor_step_peak_bytes"] == (blocks + block + 3) * A + by_weights * W

    def test_computing_again_costs_each_layer_a_second_product_and_relu(
        self, measure: MeasureWords
    ) -> None:
        """And the first block's gradient by the batch, which nobody asked for."""
        plain = self.method(measure, "plain", depth=20)["allocated_bytes_per_step"]
        again = self.method(measure, "recompute", depth=20)["allocated_bytes_per_step"]

        assert plain is not None
        assert again == plain + 20 * 2 * A + A

    def test_as_a_graph_stopping_the_tape_changes_nothing(self, measure: MeasureWords) -> None:
        """No tape holds a tensor of a graph; what the gradient needs does, and both need the same.
        It may run the blocks again as early as it likes, so its peak is not told here."""
        custom = self.method(measure, "custom", execution="graph")
        stopped = self.method(measure, "custom_stop_recording", execution="graph")

        for metric in ("graph_nodes", "allocated_bytes_per_step", "allocations_per_step"):
            assert custom[metric] == stopped[metric]

    def test_as_a_graph_recompute_grad_waits_for_its_turn(self, measure: MeasureWords) -> None:
        """It makes each block's second run depend on the gradient that comes down to it."""
        plain = self.method(measure, "plain", execution="graph")["tensor_step_peak_bytes"]
        again = self.method(measure, "recompute", execution="graph")["tensor_step_peak_bytes"]

        assert plain is not None
        assert again is not None
        assert plain >= 20 * A
        assert again < 0.7 * plain

    def test_a_graph_with_a_custom_gradient_keeps_the_weights_for_good(
        self, measure: MeasureWords
    ) -> None:
        """TensorFlow registers the gradient under a name, and never forgets it."""
        plain = self.method(measure, "plain", depth=6, execution="graph")
        custom = self.method(measure, "custom", depth=6, execution="graph")

        assert plain["tensor_retained_bytes"] == 0
        assert custom["tensor_retained_bytes"] == pytest.approx(6 * (W + HANDLE), abs=A - 1)
