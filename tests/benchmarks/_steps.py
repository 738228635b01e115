"""What the benchmarks run; apart from them, so that a child loads nothing but this."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from runner.scenario import Bench, Executions, Step


@dataclass(frozen=True)
class Sleep:
    """Does nothing for a while."""

    executions: ClassVar[Executions] = ("eager",)

    seconds: float

    def build(self, bench: Bench) -> Step:
        return lambda: time.sleep(self.seconds)


@dataclass(frozen=True)
class Spike:
    """Fills this much host memory, holds it for a moment, and drops it."""

    executions: ClassVar[Executions] = ("eager",)

    megabytes: int
    seconds: float
    pid_file: str

    def build(self, bench: Bench) -> Step:
        import numpy as np

        Path(self.pid_file).write_text(str(os.getpid()))
        time.sleep(0.3)  # the sampler finds the process

        def step() -> None:
            block = np.ones(self.megabytes * 1_000_000 // 8)
            time.sleep(self.seconds)
            del block

        return step


def products(count: int) -> Any:
    """A step of that many products of 100 x 100 matrices, for `scenario=callable`."""
    import tensorflow as tf

    matrix = tf.fill([100, 100], 0.01)

    def step() -> Any:
        product = matrix
        for _ in range(count):
            product = tf.matmul(product, matrix)
        return product

    return step


def training(keep: int = 0) -> Any:
    """A plain Keras step in a graph, whose peak moves from process to process; `keep` more bytes
    are held all along."""
    model, examples, classes, loss, optimizer, kept = _classifier(keep)
    import tensorflow as tf

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss(classes, model(examples, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    return lambda: (step(), kept)[0]


def fitting(keep: int = 0) -> Any:
    """The same by Keras' own `fit`."""
    model, examples, classes, loss, optimizer, kept = _classifier(keep)
    model.compile(optimizer, loss)
    return lambda: (model.fit(examples, classes, batch_size=256, verbose=0), kept)[0].history


def _classifier(keep: int) -> tuple[Any, ...]:
    import keras
    import tensorflow as tf

    model = keras.Sequential([
        keras.Input((64,)),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.LayerNormalization(),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(10),
    ])  # fmt: skip
    examples = tf.random.stateless_normal([256, 64], [1, 2])
    classes = tf.random.stateless_uniform([256], [3, 4], maxval=10, dtype=tf.int32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    kept = tf.fill([max(1, keep // 4)], 1.0) if keep else None
    return model, examples, classes, loss, keras.optimizers.Adam(), kept
