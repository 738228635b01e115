"""Writes one token after the other, and keeps what it has written."""

import tensorflow as tf

table = tf.random.stateless_normal([100, 16], seed=(1, 2))
tokens = tf.zeros([4, 1], tf.int32)


def next_token(tokens):
    state = tf.reduce_mean(tf.gather(table, tokens), axis=1)
    return tf.argmax(state @ tf.transpose(table), axis=1, output_type=tf.int32)


for _ in range(20):
    tokens = tf.concat([tokens, next_token(tokens)[:, None]], axis=1)
print(tokens.shape)
