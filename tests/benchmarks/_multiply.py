"""The step of the benchmarks that count milliseconds, alone: a child loads nothing but this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from runner.scenario import Bench, Executions, Step


@dataclass(frozen=True)
class Multiply:
    """Twenty products of 100 x 100 matrices."""

    executions: ClassVar[Executions] = ("eager",)

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        matrix = tf.fill([100, 100], 0.01)

        def step() -> Any:
            product = matrix
            for _ in range(20):
                product = tf.matmul(product, matrix)
            return product

        return step


MULTIPLY = """
import time
import tensorflow as tf
matrix = tf.fill([100, 100], 0.01)
def step():
    product = matrix
    for _ in range(20):
        product = tf.matmul(product, matrix)
    return product
"""
"""The same step for a fresh interpreter."""
