"""Models as users write them, for `scenario.model=tests.scenarios.their_models:NAME`."""

from __future__ import annotations

import keras


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


MODEL = keras.Sequential([keras.Input([31]), keras.layers.Dense(17)], name="made_on_import")
NUMBER = 3
