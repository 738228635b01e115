"""Models as users write them: `scenario.model=tests.integration.scenarios.their_models:NAME`."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf


def classifier() -> keras.Model:
    """Words in, with layers that behave differently in training."""
    words = keras.Input([12], dtype="int32")
    tensor = keras.layers.Embedding(50, 16)(words)
    tensor = keras.layers.BatchNormalization()(tensor)
    tensor = keras.layers.Dropout(0.5)(tensor)
    tensor = keras.layers.Flatten()(tensor)
    return keras.Model(words, keras.layers.Dense(3)(tensor), name="classifier")


def two_by_two() -> keras.Model:
    """Two inputs by name, two outputs, one of them in float32 even in mixed precision."""
    inputs = {"left": keras.Input([5]), "right": keras.Input([7])}
    both = keras.layers.Concatenate()([inputs["left"], inputs["right"]])
    outputs = [keras.layers.Dense(3)(both), keras.layers.Dense(2, dtype="float32")(both)]
    return keras.Model(inputs, outputs)


def open_sided() -> keras.Model:
    inputs = keras.Input([None, 8])
    return keras.Model(inputs, keras.layers.Dense(2)(inputs), name="open_sided")


def sized(width: int) -> keras.Model:
    return keras.Sequential([keras.Input([width]), keras.layers.Dense(width)])


class Unbuilt(keras.Model):
    def call(self, batch: object) -> object:
        return batch


class Subclassed(keras.Model):
    """Says nothing of what it takes until it is built or called."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = keras.layers.Dense(40, activation="relu")
        self.narrow = keras.layers.Dense(3)

    def call(self, batch: object) -> object:
        return self.narrow(self.wide(batch))


class OfTwo(Subclassed):
    def call(self, batch: dict[str, object]) -> object:
        return super().call(keras.ops.concatenate([batch["left"], batch["right"]], axis=-1))


def with_its_data() -> tuple[keras.Model, np.ndarray]:
    return Subclassed(), np.zeros([2, 20], np.float32)


def with_its_dataset() -> tuple[keras.Model, tf.data.Dataset]:
    pairs = tf.data.Dataset.from_tensor_slices((tf.zeros([8, 20]), tf.zeros([8, 3])))
    return Subclassed(), pairs.batch(4)


def with_named_data() -> tuple[keras.Model, dict[str, np.ndarray]]:
    return OfTwo(), {name: np.zeros([1, 10], np.float32) for name in ("left", "right")}


def with_a_number() -> tuple[keras.Model, int]:
    return Subclassed(), 20


def built_for_its_shape() -> keras.Model:
    model = Subclassed()
    model.build((None, 20))
    return model


MODEL = keras.Sequential([keras.Input([31]), keras.layers.Dense(17)], name="made_on_import")
NUMBER = 3
