"""Takes as much as its batch is large; out of memory is its own affair."""

import argparse

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, required=True)
size = parser.parse_args().batch_size
layer = keras.layers.Dense(400)
optimizer = keras.optimizers.SGD(0.01)
for _ in range(12):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(tf.ones([size, 300])) ** 2)
    weights = layer.trainable_variables
    optimizer.apply(tape.gradient(loss, weights), weights)
