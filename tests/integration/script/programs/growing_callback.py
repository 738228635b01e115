"""Keeps a tensor of each batch, for a plot that is never drawn."""

import keras
import tensorflow as tf


class Pictures(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.pictures = []

    def on_train_batch_end(self, batch, logs=None):
        self.pictures.append(tf.ones([2500]) * batch)


model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensors((tf.ones([16, 8]), tf.ones([16, 4]))).repeat()
model.fit(data, steps_per_epoch=2000, epochs=9, verbose=0, callbacks=[Pictures()])
