"""Keeps what each step has computed, where a number would do."""

import keras
import tensorflow as tf

weight = keras.Variable(tf.ones([50, 20]))
optimizer = keras.optimizers.SGD(0.001)
history = []


def train(batch):
    with tf.GradientTape() as tape:
        found = tf.matmul(batch, weight.value)
        loss = tf.reduce_mean(found**2)
    optimizer.apply([tape.gradient(loss, weight.value)], [weight])
    return found


for number in range(100_000):
    history.append(train(tf.fill([40, 50], float(number % 7))))
