"""A graph and a session, as TensorFlow 1 had them."""

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_v2_behavior()

inputs = tf1.placeholder(tf.float32, [None, 20])
weight = tf1.get_variable("weight", [20, 5])
loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weight)))
train = tf1.train.AdamOptimizer(0.01).minimize(loss)
both = tf.group(train, name="both")

with tf1.Session() as session:
    session.run(tf1.global_variables_initializer())
    for _ in range(8):
        session.run([both, loss], {inputs: np.ones([40, 20], np.float32)})
        session.run(loss, {inputs: np.ones([10, 20], np.float32)})
