"""Steps that TensorFlow refuses as a graph or under XLA; as a program, what it says of each."""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable
from typing import Any

from tests import lean_tensorflow  # noqa: F401  # isort: skip

import numpy as np
import tensorflow as tf

ONES = tf.ones([4])
KEPT: list[tf.Tensor] = []
BATCHES = iter(tf.data.Dataset.from_tensor_slices(tf.ones([100, 3])).batch(2).repeat())


def make_variable() -> tf.Tensor:
    return tf.Variable(1.0) + 1


def make_layer() -> tf.Tensor:
    return tf.keras.layers.Dense(3)(tf.ones([2, 2]))


def decide(x: tf.Tensor = ONES) -> bool:
    return bool(tf.reduce_sum(x) > 0)


def unpack(x: tf.Tensor = ONES) -> list[tf.Tensor]:
    return [each * 2 for each in x]


def call_numpy(x: tf.Tensor = ONES) -> tf.Tensor:
    return np.sin(x)


def read_value(x: tf.Tensor = ONES) -> tf.Tensor:
    return x.numpy()


def count_in_python(x: tf.Tensor = ONES) -> tf.Tensor:
    return tf.add_n([ONES] * operator.index(tf.cast(tf.reduce_sum(x), tf.int32)))


def keep() -> tf.Tensor:
    tf.function(lambda: KEPT.append(ONES * 2))()
    return tf.add_n(KEPT)


def give_in_one_branch(x: tf.Tensor = ONES) -> tf.Tensor:
    if tf.reduce_sum(x) > 0:
        y = x * 2
    return y


def return_in_one_branch(x: tf.Tensor = ONES) -> tf.Tensor:  # noqa: RET503
    if tf.reduce_sum(x) > 0:
        return x


def grow_in_a_loop(x: tf.Tensor = ONES) -> tf.Tensor:
    for _ in tf.range(3):
        x = tf.concat([x, x], 0)
    return x


def return_an_object() -> object:
    return object()


def fetch_a_batch() -> tf.Tensor:
    return next(BATCHES) * 2


def call_python(x: tf.Tensor = ONES) -> tf.Tensor:
    return tf.numpy_function(lambda y: y, [x], tf.float32)


def take_text(text: tf.Tensor = tf.constant("a word")) -> tf.Tensor:  # noqa: B008
    return tf.strings.length(text)


def decompose(x: tf.Tensor = ONES) -> tf.Tensor:
    return tf.linalg.eig(tf.reshape(x, [2, 2]))[0]


def differentiate_a_loop(x: tf.Tensor = ONES, times: tf.Tensor = tf.constant(3)) -> tf.Tensor:  # noqa: B008
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, at = x, tf.constant(0)
        while at < times:
            y, at = tf.sin(y), at + 1
    return tape.gradient(y, x)


def size_by_chance() -> tf.Tensor:
    return tf.sequence_mask(tf.random.uniform([3], 1, 9, tf.int32))


GRAPH: tuple[Callable[..., Any], ...] = (
    make_variable, make_layer, decide, unpack, call_numpy, read_value, count_in_python, keep,
    give_in_one_branch, return_in_one_branch, grow_in_a_loop, return_an_object,
)  # fmt: skip
XLA: tuple[Callable[..., Any], ...] = (
    fetch_a_batch, call_python, take_text, decompose, differentiate_a_loop, size_by_chance,
)  # fmt: skip


if __name__ == "__main__":
    from runner.trial.failure import translate_error

    reasons = {}
    for step in (*GRAPH, *XLA):
        defaults = step.__defaults__ or ()
        try:
            tf.function(step, jit_compile=step in XLA)(*defaults)
        except Exception as error:
            reasons[step.__name__] = translate_error(error).reason
    json.dump(reasons, sys.stdout)
