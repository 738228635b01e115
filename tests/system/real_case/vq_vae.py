"""A model that was not made for the purpose: the vector-quantised autoencoder of Keras' examples
(keras.io/examples/generative/vq_vae), written anew and smaller. Two mistakes can be put in.

`NEEDLESS_PEAK`: distances to the codebook from all differences at once, `[vectors, codes, depth]`,
instead of from squares and one product, `[vectors, codes]`. `LEAK`: the gallery keeps the pictures
of every step instead of the latest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

NEEDLESS_PEAK = False
LEAK = False

CODES, DEPTH = 64, 16
SIDE = 28


class Quantizer(keras.layers.Layer):
    """The nearest of the codes for each vector; gradients pass straight through."""

    def build(self, shape: Any) -> None:
        self.codes = self.add_weight(shape=(DEPTH, CODES), initializer="random_uniform")

    def call(self, x: Any) -> Any:
        vectors = tf.reshape(x, [-1, DEPTH])
        nearest = tf.argmin(self.distances(vectors), axis=1)
        found = tf.reshape(tf.gather(tf.transpose(self.codes), nearest), tf.shape(x))
        self.add_loss(0.25 * tf.reduce_mean((tf.stop_gradient(found) - x) ** 2))
        self.add_loss(tf.reduce_mean((found - tf.stop_gradient(x)) ** 2))
        return x + tf.stop_gradient(found - x)

    def distances(self, vectors: Any) -> Any:
        if NEEDLESS_PEAK:
            return tf.reduce_sum((vectors[:, None, :] - tf.transpose(self.codes)) ** 2, axis=2)
        squares = tf.reduce_sum(vectors**2, axis=1, keepdims=True)
        return squares + tf.reduce_sum(self.codes**2, axis=0) - 2 * vectors @ self.codes


def autoencoder() -> keras.Model:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            layers.Conv2D(16, 3, activation="relu", strides=2, padding="same"),
            layers.Conv2D(DEPTH, 1, strides=2, padding="same"),
            Quantizer(),
            layers.Conv2DTranspose(16, 3, activation="relu", strides=2, padding="same"),
            layers.Conv2DTranspose(1, 3, strides=2, padding="same"),
        ]
    )


class Gallery(keras.callbacks.Callback):
    """Pictures that the model draws while it learns."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.pictures: list[Any] = []
        self.sample = images(batch_size)

    def add(self, model: keras.Model) -> None:
        if not LEAK:
            self.pictures.clear()
        self.pictures.append(model(self.sample))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.add(self.model)


def images(count: int) -> Any:
    return tf.random.stateless_uniform([count, SIDE, SIDE, 1], seed=(1, 2))


def make(batch_size: int = 32) -> Callable[[], Any]:
    """A training step, as `scenario=callable` and the tests take it."""
    model, optimizer = autoencoder(), keras.optimizers.Adam(1e-3)
    gallery, batch = Gallery(batch_size), images(batch_size)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(batch, training=True) - batch) ** 2)
            loss += tf.add_n(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        gallery.add(model)
        return loss

    return step


def fit(callbacks: list[keras.callbacks.Callback], steps: int = 40, epochs: int = 3) -> Any:
    """As the example trains it."""
    batch_size = 32
    model = autoencoder()
    model.compile(optimizer="adam", loss="mse")
    data = tf.data.Dataset.from_tensors(images(batch_size)).map(lambda x: (x, x)).repeat(steps)
    return model.fit(data, epochs=epochs, verbose=0, callbacks=[Gallery(batch_size), *callbacks])
