"""Trains a small classifier; what a first script with Keras looks like."""

import argparse

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--eager", action="store_true")


def make_model():
    inputs = keras.Input((32,))
    hidden = keras.layers.Dense(64, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(10)(hidden))


def main():
    words = parser.parse_args()
    x = tf.random.stateless_normal([192, 32], seed=(1, 2))
    y = tf.random.stateless_uniform([192], seed=(3, 4), maxval=10, dtype=tf.int32)
    model = make_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=words.eager)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(words.batch_size)
    model.fit(data, validation_data=data.take(2), epochs=words.epochs, verbose=0)


if __name__ == "__main__":
    main()
