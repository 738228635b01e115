"""Code as users bring it to `scenario=callable`: steps, makers of steps, leaks and mistakes."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable
from typing import Any

import tensorflow as tf

SIZE = 1237  # floats: 4,948 bytes
NUMBER = 3

kept: list[Any] = []
table: dict[int, Any] = {}
calls: list[int] = []


def plain_step() -> tf.Tensor:
    return tf.fill([SIZE], 1.0)


def step_with_arguments(size: int, value: float = 1.0) -> tf.Tensor:
    return tf.fill([size], value)


def make(batch_size: int, seed: int, size: int = 3) -> Callable[[], tf.Tensor]:
    assert seed == 5
    batch = tf.fill([batch_size, size], 1.0)
    return lambda: batch + 1.0


def make_keras(batch_size: int) -> Callable[[], tf.Tensor]:
    import keras

    model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(3)])
    return functools.partial(model, tf.fill([batch_size, 7], 1.0))


class Module(tf.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.state = tf.Variable(tf.fill([size], 1.0))

    def __call__(self) -> tf.Tensor:
        return self.state + 1.0


class Traced(Module):
    @tf.function
    def __call__(self) -> tf.Tensor:
        return self.state + 1.0


@tf.function
def traced_step() -> tf.Tensor:
    return tf.fill([SIZE], tf.ones([]))


@tf.function
def traced_step_with_arguments(size: int) -> tf.Tensor:
    return tf.fill([size], tf.ones([]))


def make_traced() -> Any:
    state = tf.fill([SIZE], 1.0)
    return tf.function(lambda: state + 1.0)


def first_call_is_large() -> tf.Tensor:
    """Sets itself up when it is first called, as many steps do."""
    if not kept:
        kept.append(tf.fill([1000, 1000], 1.0))
    return tf.fill([10], 1.0)


def eager_only_peak() -> tf.Tensor:
    """A large temporary, but only where it runs eagerly."""
    if tf.executing_eagerly():
        return tf.fill([1000, 1000], 1.0)[0, 0]
    return tf.fill([SIZE], tf.ones([]))


def keep_a_tensor() -> None:
    kept.append(tf.fill([SIZE], 1.0))


def keep_bytes() -> tf.Tensor:
    kept.append(bytes(20_000))
    return tf.fill([10], 1.0)


def keep_entries() -> tf.Tensor:
    table[len(table)] = [{"loss": float(number), "name": f"{number}"} for number in range(80)]
    return tf.fill([10], 1.0)


def make_layers_per_call() -> Callable[[], tf.Tensor]:
    import keras

    batch = tf.fill([8, 16], 1.0)
    return lambda: keras.layers.Dense(16)(batch)


def drop_all() -> tf.Tensor:
    return tf.fill([10], float(len([bytes(20_000) for _ in range(10)])))


def make_nothing_to_drop() -> Callable[[], tf.Tensor]:
    import keras

    layer, batch = keras.layers.Dense(16), tf.fill([8, 16], 1.0)
    return lambda: layer(batch)


def _deep(x: tf.Tensor) -> tf.Tensor:
    return tf.matmul(x, tf.ones([3, 4]))


def wrong_shape() -> tf.Tensor:
    return _deep(tf.ones([2, 2]))


@tf.function
def wrong_shape_traced() -> tf.Tensor:
    return _deep(tf.ones([2, 2]))


@tf.function
def not_a_number() -> tf.Tensor:
    return tf.debugging.check_numerics(tf.math.log(tf.random.uniform([3]) - 5.0), "no number")


def make_keras_wrong() -> Callable[[], tf.Tensor]:
    import keras

    model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(3)])
    return lambda: model(tf.ones([2, 9]))


def make_model_alone() -> Any:
    import keras

    return keras.Sequential([keras.Input((7,)), keras.layers.Dense(3)])


def make_needy() -> Callable[[int], int]:
    return lambda x: x


def generator() -> Any:
    yield plain_step()


def make_generator() -> Any:
    def steps() -> Any:
        yield plain_step()

    return steps


def make_async() -> Any:
    async def step() -> tf.Tensor:
        return plain_step()

    return step


class Node:
    """Refers to itself, so only Python's collector frees it."""

    def __init__(self) -> None:
        self.itself, self.tensor = self, tf.ones([1000])


def make_a_cycle() -> Callable[[], None]:
    def step() -> None:
        Node()

    return step


def clear_the_environment() -> tf.Tensor:
    os.environ.clear()
    return plain_step()


def import_error() -> None:
    import no_such_dependency  # noqa: F401  # type: ignore[import-not-found]


def three_texts() -> Callable[[], list[tf.Tensor]]:
    """5 MB of text each, of which TensorFlow's allocator sees 24 kB."""
    texts = [f"{number:05}" * 1_000 for number in range(1_000)]
    return lambda: [tf.constant(texts) for _ in range(3)]


def two_processes() -> Callable[[], tf.Tensor]:
    kept = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]

    def step() -> tf.Tensor:
        assert all(each.poll() is None for each in kept)
        return tf.zeros([SIZE])

    return step
