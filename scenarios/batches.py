"""What a batch leaves behind: activations, tapes, and gradients that compute activations again.

A layer multiplies a `[batch_size, width]` batch by a `[width, width]` weight, and relu follows. An
activation is `[batch_size, width]`, float32, A bytes; a weight is W bytes. Weights are filled so
that every layer of a batch of ones gives ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from runner.config import Count
from runner.scenario import Bench, Executions, Step, Varies, Varying


def _weights(depth: int, width: int) -> list[Any]:
    import tensorflow as tf

    return [tf.Variable(tf.fill([width, width], 1.0 / width)) for _ in range(depth)]


def _through(batch: Any, weights: list[Any]) -> Any:
    import tensorflow as tf

    for weight in weights:
        batch = tf.nn.relu(tf.matmul(batch, weight))
    return batch


@dataclass(frozen=True)
class DenseBatch:
    """Keras Dense layers over a batch, made once or in every step, all outputs kept or the last.

    What does it cost to make layers within the step, to keep their outputs, to take a gradient,
    and what does a graph spare of it?
    """

    executions: ClassVar[Executions] = ("eager", "graph", "xla")
    varies: ClassVar[Varying] = {
        "graph": Varies(peak=0.2, allocated=0.2, when=lambda batch: batch.gradient == "tape")
    }

    width: Count
    layers: Literal["outside", "inside"]
    keep_activations: bool
    gradient: Literal["none", "tape"]
    depth: Count

    def build(self, bench: Bench) -> Step:
        import keras
        import tensorflow as tf

        batch = tf.ones([bench.batch_size, self.width])

        def filled(shape: Any, dtype: Any) -> Any:
            return tf.fill(shape, tf.cast(1.0 / self.width, dtype))

        def make_layers() -> list[Any]:
            layers = [
                keras.layers.Dense(self.width, activation="relu", kernel_initializer=filled)
                for _ in range(self.depth)
            ]
            for layer in layers:
                layer.build(batch.shape)
            return layers

        outside = make_layers() if self.layers == "outside" else None

        def forward(batch: Any, layers: list[Any]) -> list[Any]:
            """Return the last output, or all of them."""
            outputs = []
            for layer in layers:
                batch = layer(batch)
                if self.keep_activations:
                    outputs.append(batch)
            return outputs or [batch]

        @bench.compile
        def run(batch: Any) -> Any:
            layers = outside or make_layers()
            if self.gradient == "none":
                return forward(batch, layers)
            with tf.GradientTape() as tape:
                outputs = forward(batch, layers)
            weights = [weight for layer in layers for weight in layer.trainable_variables]
            return outputs, tape.gradient(outputs[-1], weights)

        return lambda: run(batch)


@dataclass(frozen=True)
class Tape:
    """A gradient tape over a few layers, once or persistent, let go in three ways.

    What does persistent=True keep, and does a tape that nobody deletes leak, or only one that
    somebody holds?
    """

    executions: ClassVar[Executions] = ("eager",)

    depth: Count
    width: Count
    persistent: bool
    release: Literal["delete", "scope", "keep"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        batch = tf.ones([bench.batch_size, self.width])
        weights = _weights(self.depth, self.width)
        tapes: list[Any] = []

        def step() -> Any:
            with tf.GradientTape(persistent=self.persistent) as tape:
                result = _through(batch, weights)
            gradients = tape.gradient(result, weights)
            if self.release == "delete":
                del tape
            elif self.release == "keep":
                tapes.append(tape)
            return gradients

        return step


@dataclass(frozen=True)
class GradientMethod:
    """One stack of layers, its weights' gradients taken in four ways.

    Which way keeps fewer activations than a plain tape: a custom gradient that computes a block
    again, the same with the tape stopped, or `tf.recompute_grad`? As a graph, a block may be
    computed again together with anything else.
    """

    executions: ClassVar[Executions] = ("eager", "graph")
    varies: ClassVar[Varying] = {"graph": Varies(peak=0.3)}

    depth: Count
    width: Count
    method: Literal["plain", "custom", "custom_stop_recording", "recompute"]
    block: Count

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        batch = tf.ones([bench.batch_size, self.width])
        weights = _weights(self.depth, self.width)
        blocks = [weights[at : at + self.block] for at in range(0, self.depth, self.block)]

        def plain(batch: Any, block: list[Any], tape: Any) -> Any:
            return _through(batch, block)

        def custom(batch: Any, block: list[Any], tape: Any) -> Any:
            return _computed_again(batch, block)

        def custom_stop_recording(batch: Any, block: list[Any], tape: Any) -> Any:
            return _computed_again(batch, block, tape)

        def recompute(batch: Any, block: list[Any], tape: Any) -> Any:
            return tf.recompute_grad(lambda batch: _through(batch, block))(batch)

        ways = {each.__name__: each for each in (plain, custom, custom_stop_recording, recompute)}
        forward = ways[self.method]

        @bench.compile
        def run(batch: Any) -> Any:
            with tf.GradientTape() as tape:
                for block in blocks:
                    batch = forward(batch, block, tape)
            return tape.gradient(batch, weights)

        return lambda: run(batch)


def _computed_again(batch: Any, block: list[Any], tape: Any = None) -> Any:
    """Run a block whose gradient runs it again; `tape` is stopped while it runs first."""
    import tensorflow as tf

    def run(batch: Any) -> Any:
        if tape is None:
            result = _through(batch, block)
        else:
            with tape.stop_recording():
                result = _through(batch, block)

        def gradient(upstream: Any, variables: Any) -> Any:
            with tf.GradientTape() as again:
                again.watch(batch)
                result = _through(batch, block)
            by_batch, *by_weight = again.gradient(
                result, [batch, *variables], output_gradients=upstream
            )
            return by_batch, by_weight

        return result, gradient

    return tf.custom_gradient(run)(batch)
