"""Something new in every step, and a way of letting go of it: how a loop in eager mode leaks.

A script's names outlive the body of its loop: they hold what the last iteration made until the next
one binds them anew. So do the names here, which `build` owns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from runner.config import Count
from runner.scenario import Bench, Executions, Step


@dataclass(frozen=True)
class TensorPerStep:
    """A loop's body that makes a vector and its square, and lets go of them in one of four ways.

    Does the loop grow unless they are deleted, and does `.numpy()` release them?
    """

    executions: ClassVar[Executions] = ("eager",)

    elements: Count
    release: Literal["rebind", "delete", "numpy", "keep"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        vector: Any = None
        square: Any = None
        kept: list[Any] = []

        def step() -> Any:
            nonlocal vector, square
            vector = tf.ones([self.elements])
            square = tf.square(vector)
            if self.release == "numpy":
                return square.numpy()
            if self.release == "keep":
                kept.append(square)
            if self.release == "delete":
                del vector, square
            return None

        return step


@dataclass(frozen=True)
class VariablePerStep:
    """A loop's body that makes a variable and takes a gradient by it, or reuses one variable.

    Does the variable of an iteration outlive it unless it is deleted?
    """

    executions: ClassVar[Executions] = ("eager",)

    size: Count
    release: Literal["rebind", "delete", "keep", "reuse"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        shape = [self.size, self.size]
        variable: Any = tf.Variable(tf.ones(shape)) if self.release == "reuse" else None
        kept: list[Any] = []

        def step() -> Any:
            nonlocal variable
            with tf.GradientTape() as tape:
                if self.release == "reuse":
                    variable.assign(tf.ones(shape))
                else:
                    variable = tf.Variable(tf.ones(shape))
                total = tf.reduce_sum(variable, [0, 1])
            gradient = tape.gradient(total, variable)
            if self.release == "keep":
                kept.append(variable)
            if self.release == "delete":
                del variable
            return gradient

        return step
