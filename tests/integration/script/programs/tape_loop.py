"""A training loop written by hand; it evaluates now and then, and keeps its last loss in a name."""

import keras
import tensorflow as tf

layer = keras.layers.Dense(128, activation="relu")
head = keras.layers.Dense(1)
optimizer = keras.optimizers.SGD(0.01)
losses = []

for number in range(12):
    batch = tf.random.stateless_normal([64, 96], seed=(number, 0))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(head(layer(batch)) ** 2)
    weights = layer.trainable_variables + head.trainable_variables
    gradients = tape.gradient(loss, weights)
    optimizer.apply_gradients(zip(gradients, weights, strict=True))
    losses.append(float(loss))

print("last loss", losses[-1])
