"""What the benchmarks run; apart from them, so that a child loads nothing but this."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True)
class Sleep:
    """Does nothing for a while."""

    executions: ClassVar[Executions] = ("eager",)

    seconds: float

    def build(self, bench: Bench) -> Step:
        return lambda: time.sleep(self.seconds)


@dataclass(frozen=True)
class Spike:
    """Fills this much host memory, holds it for a moment, and drops it."""

    executions: ClassVar[Executions] = ("eager",)

    megabytes: int
    seconds: float
    pid_file: str

    def build(self, bench: Bench) -> Step:
        import numpy as np

        Path(self.pid_file).write_text(str(os.getpid()))
        time.sleep(0.3)  # the sampler finds the process

        def step() -> None:
            block = np.ones(self.megabytes * 1_000_000 // 8)
            time.sleep(self.seconds)
            del block

        return step


def products(count: int) -> Any:
    """A step of that many products of 100 x 100 matrices, for `scenario=callable`."""
    import tensorflow as tf

    matrix = tf.fill([100, 100], 0.01)

    def step() -> Any:
        product = matrix
        for _ in range(count):
            product = tf.matmul(product, matrix)
        return product

    return step
