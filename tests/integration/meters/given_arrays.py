"""A program that gives TensorFlow arrays of NumPy's: `python given_arrays.py WAY ROWS`.

As many programs do, it makes a graph before it runs anything: then TensorFlow's process-wide
allocator is asked for before there is a device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

WIDTH = 500
BATCH = 1


class OwnLayer(keras.layers.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(x)


class OwnModel(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(x)


class OwnStep(OwnModel):
    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x) - y) ** 2)
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        return {"loss": loss}


def make_rows(rows: int) -> Any:
    return np.ones((rows, WIDTH), np.float32)


def compile_model(model: Any) -> Any:
    model.compile("sgd", "mse")
    return model


def sequential(layer: Any) -> Any:
    return compile_model(keras.Sequential([keras.Input((WIDTH,)), layer]))


def fit(model: Any) -> Callable[[int], object]:
    def run(rows: int) -> object:
        y = np.ones((rows, 1), np.float32)
        return model().fit(make_rows(rows), y, batch_size=BATCH, steps_per_epoch=2, verbose=0)

    return run


def evaluate(rows: int) -> object:
    x, y = make_rows(rows), np.ones((rows, 1), np.float32)
    return sequential(OwnLayer()).evaluate(x, y, batch_size=BATCH, steps=2, verbose=0)


def predict(rows: int) -> object:
    return sequential(OwnLayer()).predict(make_rows(rows), batch_size=BATCH, steps=2, verbose=0)


def consume(dataset: Any) -> int:
    return len([None for _ in dataset])


def generate(rows: int) -> object:
    def produce() -> Iterator[Any]:
        yield make_rows(rows)

    signature = tf.TensorSpec([rows, WIDTH])
    return consume(tf.data.Dataset.from_generator(produce, output_signature=signature))


def feed(rows: int, *, is_callable: bool = False) -> object:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        given = tf.compat.v1.placeholder(tf.float32, [None, WIDTH])
        top = given[0, 0] + 1
        if is_callable:
            return session.make_callable(top, [given])(make_rows(rows))
        return session.run(top, {given: make_rows(rows)})


def in_graph(rows: int) -> object:
    array = make_rows(rows)
    return tf.function(lambda: tf.numpy_function(lambda: array, [], tf.float32)[0, 0])()


WAYS: dict[str, Callable[[int], object]] = {
    "fit": fit(lambda: sequential(keras.layers.Dense(1))),
    "fit, a layer of its own": fit(lambda: sequential(OwnLayer())),
    "fit, a model of its own": fit(lambda: compile_model(OwnModel())),
    "fit, a train_step of its own": fit(lambda: compile_model(OwnStep())),
    "evaluate": evaluate,
    "predict": predict,
    "from_tensor_slices": lambda rows: consume(
        tf.data.Dataset.from_tensor_slices(make_rows(rows)).take(2)
    ),
    "from_tensors": lambda rows: consume(tf.data.Dataset.from_tensors(make_rows(rows))),
    "from_generator": generate,
    "py_function": lambda rows: tf.py_function(lambda: make_rows(rows), [], tf.float32),
    "numpy_function": in_graph,
    "constant": lambda rows: tf.constant(make_rows(rows)),
    "a feed of a session": feed,
    "a callable of a session": lambda rows: feed(rows, is_callable=True),
}

COPIES = {"from_tensor_slices": 2, "from_tensors": 2}
"""Of one array, where TensorFlow has more than one: making the iterator copies what a dataset holds
(`MakeIterator`), in plain Python as well."""

if __name__ == "__main__":
    with tf.Graph().as_default():
        tf.reshape(tf.ones([6]), tf.constant([2, 3]) + 0)
    WAYS[sys.argv[1]](int(sys.argv[2]))
