"""Real models, each as a training step without arguments; `python -m tests.benchmarks._real_models
MODEL EXECUTION` takes ten of them and prints nothing: the plain program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]

STEPS = 10
"""The plain program's."""


def efficientnet() -> Step:
    """EfficientNetB0 on 16 pictures of 224 x 224."""
    import keras

    return _train_on_pictures(keras.applications.EfficientNetB0(weights=None, classes=10), 16)


def mobilenet() -> Step:
    """MobileNetV2 on 8 pictures of 224 x 224."""
    import keras

    return _train_on_pictures(keras.applications.MobileNetV2(weights=None, classes=10), 8)


def _train_on_pictures(model: Any, batch_size: int) -> Step:
    import keras
    import tensorflow as tf

    pictures = tf.random.uniform([batch_size, 224, 224, 3])
    labels = tf.random.uniform([batch_size], maxval=10, dtype=tf.int32)
    loss = keras.losses.SparseCategoricalCrossentropy()
    return _make_step(model, keras.optimizers.SGD(1e-3), lambda: (pictures, labels), loss)


def gpt2() -> Step:
    """GPT-2's small layers, four of them, on 4 texts of 128 tokens; output and input share their
    embedding."""
    import keras
    import tensorflow as tf

    width, heads, length, words = 768, 12, 128, 50257

    class Block(keras.layers.Layer):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before = [keras.layers.LayerNormalization() for _ in range(2)]
            self.attention = keras.layers.MultiHeadAttention(heads, width // heads)
            self.up = keras.layers.Dense(4 * width, activation="gelu")
            self.down = keras.layers.Dense(width)

        def call(self, x: Any) -> Any:
            normed = self.before[0](x)
            x = x + self.attention(normed, normed, use_causal_mask=True)
            return x + self.down(self.up(self.before[1](x)))

    class Gpt2(keras.Model):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = keras.layers.Embedding(words, width)
            self.places = keras.layers.Embedding(length, width)
            self.blocks = [Block() for _ in range(4)]
            self.last = keras.layers.LayerNormalization()

        def call(self, tokens: Any, training: bool = False) -> Any:
            x = self.words(tokens) + self.places(tf.range(length))
            for block in self.blocks:
                x = block(x)
            return tf.matmul(self.last(x), self.words.embeddings, transpose_b=True)

    tokens = tf.random.uniform([4, length + 1], maxval=words, dtype=tf.int32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(1e-4)
    return _make_step(Gpt2(), optimizer, lambda: (tokens[:, :-1], tokens[:, 1:]), loss)


def _make_step(model: Any, optimizer: Any, batch: Callable[[], Any], loss: Any) -> Step:
    import tensorflow as tf

    def step() -> Any:
        inputs, labels = batch()
        with tf.GradientTape() as tape:
            value = loss(labels, model(inputs, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(value, weights), weights, strict=True))
        return value

    batch_inputs, _ = batch()
    model(batch_inputs)  # makes the weights, so that the step can be a graph
    optimizer.build(model.trainable_variables)
    return step


def run_plainly(model: str, execution: str) -> None:
    """Take ten steps, as a script without the runner does."""
    import tensorflow as tf

    step = globals()[model]()
    if execution == "graph":
        step = tf.function(step)
    for _ in range(STEPS):
        step()


if __name__ == "__main__":
    run_plainly(*sys.argv[1:])
