"""Programs that hand arrays of NumPy's to TensorFlow, each in a way of its own.

Each takes the number of float32 elements of its array; `numpy_arrays` knows what it then takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

Step = Callable[[], object]

ROWS = 8
SIZES = (1, 1_000, 100_000, 10_000_000)
"""Up to 40 MB."""


def make(elements: int, value: float = 1.0) -> Any:
    return np.full(elements, value, np.float32)


def make_rows(elements: int) -> Any:
    """A table of about so many elements: its rows begin at whatever address they do."""
    return np.ones((ROWS, max(1, elements // ROWS)), np.float32)


BEFORE = {size: [make(size) for _ in range(4)] for size in SIZES}
"""There before the trial begins: the module is loaded with its scenario."""


def held(elements: int) -> Step:
    kept = [tf.constant(make(elements, value)) for value in range(4)]
    return lambda: len(kept)


def held_before(elements: int) -> Step:
    kept = [tf.constant(array) for array in BEFORE[elements]]
    return lambda: len(kept)


def fed(elements: int) -> Step:
    def step() -> None:
        tf.convert_to_tensor(make(elements))

    return step


def fed_slices(elements: int) -> Step:
    table = make_rows(elements)
    return lambda: [tf.convert_to_tensor(table[at : at + 2]) for at in range(3)]


def generator(elements: int) -> Step:
    def produce() -> Iterator[Any]:
        for value in range(3):
            yield make(elements, value)

    signature = tf.TensorSpec([elements])
    kept = list(tf.data.Dataset.from_generator(produce, output_signature=signature))
    return lambda: len(kept)


def tensor_slices(elements: int) -> Step:
    dataset = tf.data.Dataset.from_tensor_slices(make_rows(elements))
    return lambda: dataset


def py_function(elements: int) -> Step:
    kept = [tf.py_function(lambda: make(elements), [], tf.float32) for _ in range(3)]
    return lambda: len(kept)


def traced_constant(elements: int) -> Step:
    array, given = make(elements), tf.ones([elements])
    add = tf.function(lambda tensor: tensor + tf.constant(array))
    return lambda: add(given)


def converted(elements: int) -> Step:
    """Another dtype, another order, a list, a series of pandas'; as a graph's argument."""
    double = tf.function(lambda tensor: tensor)

    def step() -> list[Any]:
        return [
            tf.constant(make(elements).astype(np.float64), tf.float32),
            tf.convert_to_tensor(np.ones((elements, 2), np.float32)[:, 0]),
            tf.raw_ops.Pack(values=[make(elements)]),
            tf.constant(pd.Series(make(elements))),
            double(make(elements)),
        ]

    return step


def scalars(elements: int) -> Step:
    six = tf.zeros([6])

    def step() -> list[Any]:
        return [
            tf.constant(np.float32(elements)),
            tf.constant(np.array([elements])),
            tf.reshape(six, np.array([2, -1])),
            tf.zeros(np.array([2, 3])),
            six * np.float32(elements),
        ]

    return step


def fit(elements: int) -> Step:
    x, y = make_rows(elements), np.ones((ROWS, 1), np.float32)
    model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    return lambda: model.fit(x, y, batch_size=4, verbose=0)
