"""Batches come from a process of its own, which is spawned and so imports this file again."""

import multiprocessing
import sys

import numpy as np


def produce(queue, count):
    assert "tensorflow" not in sys.modules
    for number in range(count):
        queue.put(np.full([16, 8], number, np.float32).tolist())


def main():
    import tensorflow as tf

    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    worker = context.Process(target=produce, args=(queue, 6))
    worker.start()
    weight = tf.Variable(tf.ones([8, 8]))
    optimizer = tf.keras.optimizers.SGD(0.1)

    @tf.function(jit_compile=True)
    def train(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((batch @ weight) ** 2)
        optimizer.apply([tape.gradient(loss, weight)], [weight])
        return loss

    for _ in range(6):
        loss = train(tf.fill([16, 8], queue.get()[0][0]))
    print(float(loss))
    worker.join()


if __name__ == "__main__":
    main()
