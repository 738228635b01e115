"""The documents' examples that do not work as they are written, run as they are meant.

How such a run ends is its result: a failed record holds what TensorFlow said. `EXAMPLES` is the
table: a name, the executions it is about, and a function that builds the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runner.errors import BadInput, suggest
from runner.scenario import Bench, Executions, Step


def _layers_in_function(bench: Bench) -> Step:
    """Keras layers made in the body of the decorated function, for one batch."""
    import keras
    import tensorflow as tf

    @bench.compile
    def process(batch: Any) -> Any:
        hidden = keras.layers.Dense(64, activation="relu")(batch)
        return keras.layers.Dense(128, activation="relu")(hidden)

    batch = tf.ones([32, 784])
    return lambda: process(batch)


def _layer_in_custom_gradient() -> Any:
    import keras
    import tensorflow as tf

    def layer(x: Any) -> Any:
        y = keras.layers.Dense(2, activation="relu", kernel_initializer="ones")(x)
        return y, lambda upstream: tf.gradients(y, x, grad_ys=upstream)[0]

    return tf.custom_gradient(layer)


def _custom_gradient_in_sequential(bench: Bench) -> Step:
    """Give Sequential a function with a custom gradient, as if it were a layer."""
    import keras
    import tensorflow as tf

    batch = tf.ones([32, 2])
    return lambda: keras.Sequential([_layer_in_custom_gradient()])(batch)


def _custom_gradient_of_layer(bench: Bench) -> Step:
    """Call the same function by itself, so that Sequential is out of the question."""
    import tensorflow as tf

    batch = tf.ones([32, 2])
    layer = bench.compile(_layer_in_custom_gradient())
    return lambda: layer(batch)


def _gradients_in_custom_gradient(bench: Bench) -> Step:
    """`tf.gradients` in a custom gradient with no layer in it, and a tape that asks for it."""
    import tensorflow as tf

    def relu(x: Any) -> Any:
        y = tf.nn.relu(x)
        return y, lambda upstream: tf.gradients(y, x, grad_ys=upstream)[0]

    activation = tf.custom_gradient(relu)

    @bench.compile
    def differentiate(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(batch)
            result = activation(batch)
        return tape.gradient(result, batch)

    batch = tf.ones([32, 2])
    return lambda: differentiate(batch)


def _memory_info_without_device(bench: Bench) -> Step:
    """TensorFlow asked for the memory in use, and not told of which device."""
    import tensorflow as tf

    total = tf.constant([1, 2, 3]) + tf.constant([4, 5, 6])
    return lambda: (total, tf.config.experimental.get_memory_info())


def _eager_by_switch(bench: Bench) -> Step:
    """Where eager execution is off: the switch that is said to turn it on, then a sum's value."""
    import tensorflow as tf

    def step() -> Any:
        tf.config.run_functions_eagerly(True)
        return (tf.constant([1, 2, 3]) + tf.constant([4, 5, 6])).numpy()

    return step


def _eager_without_switch(bench: Bench) -> Step:
    """Show the counterpart: the switch is off, and a sum's value is there all the same."""
    import tensorflow as tf

    def step() -> Any:
        tf.config.run_functions_eagerly(False)
        return (tf.constant([1, 2, 3]) + tf.constant([4, 5, 6])).numpy()

    return step


def _eager_after_graph(bench: Bench) -> Step:
    """Eager execution enabled in a program that has run in graph mode before."""
    import tensorflow as tf

    tf.square(tf.constant([1, 2, 3]))
    return lambda: tf.compat.v1.enable_eager_execution()


def _session_with_eager_variables(bench: Bench) -> Step:
    """`get_variable` as TensorFlow 2 starts, with eager execution on; then a session to use it."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with v1.variable_scope("scope"):
        variable = v1.get_variable("weight", [100, 100], initializer=v1.ones_initializer())

    def step() -> Any:
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return session.run(tf.reduce_sum(variable))

    return step


EXAMPLES: dict[str, tuple[Executions, Callable[[Bench], Step]]] = {
    "layers_in_function": (("graph", "xla"), _layers_in_function),
    "custom_gradient_in_sequential": (("eager",), _custom_gradient_in_sequential),
    "custom_gradient_of_layer": (("eager", "graph"), _custom_gradient_of_layer),
    "gradients_in_custom_gradient": (("eager", "graph"), _gradients_in_custom_gradient),
    "memory_info_without_device": (("eager",), _memory_info_without_device),
    "eager_by_switch": (("session",), _eager_by_switch),
    "eager_without_switch": (("eager",), _eager_without_switch),
    "eager_after_graph": (("session",), _eager_after_graph),
    "session_with_eager_variables": (("eager",), _session_with_eager_variables),
}


@dataclass(frozen=True)
class DocumentExample:
    """An example of the documents that does not work as it is written, or the part that decides.

    Does it work in this version of TensorFlow and, if not, what does TensorFlow say?
    """

    example: str

    def __post_init__(self) -> None:
        if self.example not in EXAMPLES:
            raise BadInput(
                f"scenario.example: {self.example!r} is no example.",
                suggest(self.example, EXAMPLES),
            )

    @property
    def executions(self) -> Executions:
        return EXAMPLES[self.example][0]

    def build(self, bench: Bench) -> Step:
        return EXAMPLES[self.example][1](bench)
