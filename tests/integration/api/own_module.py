"""The same step as in script.py, in a module that any process can import."""

import tensorflow as tf

batch = tf.raw_ops.DeepCopy(x=tf.constant(tf.ones([100, 50]).numpy()))
weight = tf.Variable(tf.raw_ops.DeepCopy(x=tf.constant(tf.ones([50, 70]).numpy())))
history = []


@tf.function
def product(tensor):
    return tf.matmul(tensor, weight)


def step():
    history.append(product(batch))  # kept
