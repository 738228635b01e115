"""What an optimizer keeps for each variable that it trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from runner.config import Count
from runner.scenario import Bench, Executions, Step, Varies, Varying


@dataclass(frozen=True)
class OptimizerSlots:
    """A Keras optimizer that applies the same gradient to one [size, size] variable in every step.

    How much memory of its own does each optimizer add, and how much does an update take in passing?
    Held throughout are the variable, the gradient, the slots, the learning rate and the count of
    iterations. As a graph, release frees the gradient alone, because Keras sums gradients through a
    custom gradient, which TensorFlow registers for good, together with the graph and what that
    captured.
    """

    executions: ClassVar[Executions] = ("eager", "graph")
    varies: ClassVar[Varying] = {"graph": Varies(peak=0.4, allocated=0.4)}

    size: Count
    optimizer: Literal[
        "sgd", "momentum", "rmsprop", "adagrad", "adam",
        "adamw", "nadam", "amsgrad", "adafactor", "lion",
    ]  # fmt: skip

    def build(self, bench: Bench) -> Step:
        import keras
        import tensorflow as tf

        optimizer = _optimizer(self.optimizer)
        variable = keras.Variable(keras.initializers.Ones(), shape=(self.size, self.size))
        gradient = tf.ones([self.size, self.size])
        optimizer.build([variable])

        @bench.compile
        def update(gradient: Any) -> None:
            optimizer.apply([gradient], [variable])

        return lambda: update(gradient)


def _optimizer(name: str) -> Any:
    from keras import optimizers

    if name == "momentum":
        return optimizers.SGD(momentum=0.9)
    if name == "amsgrad":
        return optimizers.Adam(amsgrad=True)
    return optimizers.get(name)
