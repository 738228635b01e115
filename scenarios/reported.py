"""What users report to leak, each pattern with its remedy beside it; the first choice is theirs.

The numbers are those of the reports at github.com/tensorflow/tensorflow/issues; the words and the
code are ours. Is it still so on this version? `python -m runner leak experiment=reported` tells.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from runner.config import Count, NonNegative
from runner.scenario import Bench, Executions, Step, Varies, Varying

_CONCURRENT: Varying = {"eager": Varies(peak=0.5, allocated=0.5)}
"""Keras runs its own graphs, and a pipeline runs ahead of who reads it."""


def _model(size: int, jit_compile: bool = False) -> Any:
    import keras

    model = keras.Sequential([keras.Input((size,)), keras.layers.Dense(size, activation="relu")])
    model.compile("sgd", "mse", jit_compile=jit_compile)
    return model


@dataclass(frozen=True)
class ModelPerStep:
    """A new Keras model fitted in every step, cleared away by clear_session, del and the collector.

    What of it stays all the same, more of it under XLA, and is it enough to build the model once
    and give it new weights? (#61791; with jit_compile #64170)
    """

    executions: ClassVar[Executions] = ("eager",)
    varies: ClassVar[Varying] = _CONCURRENT

    size: Count
    model: Literal["cleared", "deleted", "reused"]
    jit_compile: bool

    def build(self, bench: Bench) -> Step:
        import gc

        import keras
        import tensorflow as tf

        batch = tf.ones([8, self.size])

        def fit(model: Any) -> None:
            model.fit(batch, batch, batch_size=8, verbose=0)

        if self.model == "reused":
            model = _model(self.size, self.jit_compile)
            first = model.get_weights()

            def step_with_new_weights() -> None:
                model.set_weights(first)
                fit(model)

            return step_with_new_weights

        def step() -> None:
            model = _model(self.size, self.jit_compile)
            fit(model)
            del model
            if self.model == "cleared":
                keras.backend.clear_session()
            gc.collect()

        return step


@dataclass(frozen=True)
class PredictInLoop:
    """`model.predict` on one small batch after the other, or the model called as a function.

    Does a call leave something behind, as its dataset, its callbacks and its history are made anew
    each time? (#44711, #33030)
    """

    executions: ClassVar[Executions] = ("eager",)
    varies: ClassVar[Varying] = _CONCURRENT

    size: Count
    call: Literal["predict", "predict_on_batch", "model"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        model = _model(self.size)
        batch = tf.ones([8, self.size])
        calls: dict[str, Callable[[], object]] = {
            "predict": lambda: model.predict(batch, verbose=0),
            "predict_on_batch": lambda: model.predict_on_batch(batch),
            "model": lambda: model(batch, training=False),
        }
        return calls[self.call]


@dataclass(frozen=True)
class FunctionPerShape:
    """A `tf.function` made anew for each of several shapes in every step, or one for all of them.

    Does a function that is dropped take its graphs with it? (#62854)
    """

    executions: ClassVar[Executions] = ("eager",)

    shapes: Count
    function: Literal["anew", "once"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        inputs = [tf.ones([rows + 2, 16]) for rows in range(self.shapes)]

        def double(tensor: Any) -> Any:
            return tensor * 2.0

        if self.function == "once":
            once = tf.function(double, reduce_retracing=True)

            def step_with_one() -> None:
                for tensor in inputs:
                    once(tensor)

            return step_with_one

        def step() -> None:
            for tensor in inputs:
                tf.function(double)(tensor)

        return step


@dataclass(frozen=True)
class ModelAsArgument:
    """A `tf.function` that takes the object whose weights it uses as an argument, a new one a step.

    Is every object traced again, and does the function hold its trace after the object is gone?
    (#31175) The remedy passes the weights, which are tensors.
    """

    executions: ClassVar[Executions] = ("eager",)

    size: Count
    argument: Literal["object", "tensors"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        class Layer(tf.Module):  # type: ignore[misc]
            def __init__(self, size: int) -> None:
                super().__init__()
                self.weight = tf.Variable(tf.ones([size, size]))

        @tf.function  # type: ignore[untyped-decorator]
        def apply(layer: Any, tensor: Any) -> Any:
            weight = layer.weight if self.argument == "object" else layer
            return tf.matmul(tensor, weight)

        tensor = tf.ones([8, self.size])

        def step() -> None:
            layer = Layer(self.size)
            apply(layer if self.argument == "object" else layer.weight.read_value(), tensor)

        return step


@dataclass(frozen=True)
class SeededRandom:
    """An eager random op after `tf.random.set_seed`; each call gets a seed of its own.

    Does each call leave a kernel behind, and which other way of drawing does not? (#37252)
    """

    executions: ClassVar[Executions] = ("eager",)

    elements: Count
    draw: Literal["normal", "generator", "stateless"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        tf.random.set_seed(bench.seed + 1)
        generator = tf.random.Generator.from_seed(bench.seed + 1)
        seed = tf.constant([bench.seed, 1])
        draws: dict[str, Callable[[], object]] = {
            "normal": lambda: tf.random.normal([self.elements]),
            "generator": lambda: generator.normal([self.elements]),
            "stateless": lambda: tf.random.stateless_normal([self.elements], seed),
        }
        return draws[self.draw]


@dataclass(frozen=True)
class SavedModelLoaded:
    """A SavedModel that is loaded, called once and dropped in every step, or loaded once.

    Does a service that loads and drops models grow, and by how much a load? (#40171, #45453)
    """

    executions: ClassVar[Executions] = ("eager",)
    varies: ClassVar[Varying] = _CONCURRENT

    size: Count
    load: Literal["per_step", "once"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        class Product(tf.Module):  # type: ignore[misc]
            def __init__(self, size: int) -> None:
                super().__init__()
                self.weight = tf.Variable(tf.ones([size, size]))

            @tf.function(  # type: ignore[untyped-decorator]
                input_signature=[tf.TensorSpec([None, None], tf.float32)]
            )
            def __call__(self, tensor: Any) -> Any:
                return tf.matmul(tensor, self.weight)

        folder = str(Path(tempfile.mkdtemp()) / "model")
        tf.saved_model.save(Product(self.size), folder)
        batch = tf.ones([8, self.size])
        if self.load == "once":
            model = tf.saved_model.load(folder)
            return lambda: model(batch)
        return lambda: tf.saved_model.load(folder)(batch)


@dataclass(frozen=True)
class Pipeline:
    """A tf.data pipeline with one stage that buffers; a step takes one element and consumes slowly.

    Does a buffer fill and stop, at its number of elements times their bytes, or does it go on?
    What does AUTOTUNE choose when the consumer is slow? A cache holds all elements once it has seen
    them, a file none. (#44176 shuffle, #36821 from_generator, #51839 py_function)
    """

    executions: ClassVar[Executions] = ("eager",)
    varies: ClassVar[Varying] = {"eager": Varies(peak=0.95, allocated=0.95)}

    stage: Literal[
        "shuffle",
        "cache",
        "cache_file",
        "prefetch",
        "prefetch_autotune",
        "from_generator",
        "py_function",
    ]
    elements: Count
    buffer: Count
    dataset: Count
    consumer_ms: NonNegative

    def build(self, bench: Bench) -> Step:
        import time

        values = iter(self._stage().repeat())

        def step() -> None:
            next(values)
            if self.consumer_ms:
                time.sleep(self.consumer_ms / 1000)

        return step

    def _stage(self) -> Any:
        import tensorflow as tf

        numbers = tf.data.Dataset.range(self.dataset)
        made = numbers.map(lambda number: tf.fill([self.elements], tf.cast(number, tf.float32)))

        def generate() -> Iterator[Any]:
            import numpy as np

            for number in range(self.dataset):
                yield np.full(self.elements, number, np.float32)

        def in_python(number: Any) -> Any:
            import numpy as np

            return np.full(self.elements, int(number), np.float32)

        stages: dict[str, Callable[[], Any]] = {
            "shuffle": lambda: made.shuffle(self.buffer, seed=1),
            "cache": made.cache,
            "cache_file": lambda: made.cache(str(Path(tempfile.mkdtemp()) / "cache")),
            "prefetch": lambda: made.prefetch(self.buffer),
            "prefetch_autotune": lambda: made.prefetch(tf.data.AUTOTUNE),
            "from_generator": lambda: tf.data.Dataset.from_generator(
                generate, output_signature=tf.TensorSpec([self.elements], tf.float32)
            ),
            "py_function": lambda: numbers.map(
                lambda number: tf.py_function(in_python, [number], tf.float32)
            ),
        }
        return stages[self.stage]()
