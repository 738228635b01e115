"""What `tf.function` does to memory: one large result, chains of ops, branches, traces.

Every tensor is `[size, size]`, float32, M bytes, and every value stays at, or near, 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from runner.config import Count
from runner.scenario import Bench, Executions, Step


@dataclass(frozen=True)
class LargeTensor:
    """One large tensor, made by a function and returned, again and again.

    What does the first call cost beyond the next, and what does it cost to hold the previous
    result while the next one is made?
    """

    executions: ClassVar[Executions] = ("eager", "graph", "xla")

    size: Count
    keep_previous: bool

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        value = tf.ones([])

        @bench.compile
        def make(value: Any) -> Any:
            # Of an argument, not of a constant: a constant result is made once, with the graph.
            return tf.fill([self.size, self.size], value)

        previous: list[Any] = []

        def step_holding_the_previous() -> None:
            previous[:] = [make(value)]

        return step_holding_the_previous if self.keep_previous else lambda: make(value)


@dataclass(frozen=True)
class ChainedOps:
    """A chain of element-wise ops: each result bound to a name, nested calls, or all from one.

    Do names for the intermediates cost memory, and does their number set the footprint once a
    graph may hand an op's buffer on to the next op, or XLA may fuse them all?
    """

    executions: ClassVar[Executions] = ("eager", "graph", "xla")

    size: Count
    depth: Count
    style: Literal["named", "nested", "fan_out"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        source = tf.ones([self.size, self.size])

        def link(number: int, tensor: Any) -> Any:
            """Of 1 each of them makes 1; three in a row, so that no optimiser can merge two."""
            if number % 3 == 0:
                return tf.square(tensor)
            return tensor * 0.5 if number % 3 == 1 else tensor + 0.5

        def named(tensor: Any) -> Any:
            names = [tensor]
            for number in range(self.depth):
                names.append(link(number, names[-1]))
            return names[-1]

        def nested(tensor: Any) -> Any:
            for number in range(self.depth):
                tensor = link(number, tensor)
            return tensor

        def fan_out(tensor: Any) -> Any:
            return tf.add_n([tf.minimum(tensor, number + 1.0) for number in range(self.depth)])

        run = bench.compile({"named": named, "nested": nested, "fan_out": fan_out}[self.style])
        return lambda: run(source)


@dataclass(frozen=True)
class Conditional:
    """One function with two branches, chosen by a Python bool or by a tensor.

    Is it one graph for both or one for each, and does a branch that is not taken cost memory?
    """

    executions: ClassVar[Executions] = ("graph", "xla")

    size: Count
    predicate: Literal["python", "tensor"]
    heavy: bool
    alternate: bool

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        source = tf.fill([self.size, self.size], 1.0 / self.size)

        def three_products(tensor: Any) -> Any:
            return tf.add_n(
                [
                    tf.matmul(tensor, tensor),
                    tf.matmul(tensor, tensor, transpose_a=True),
                    tf.matmul(tensor, tensor, transpose_b=True),
                ]
            )

        other = three_products if self.heavy else tf.negative

        @bench.compile
        def choose(tensor: Any, first: Any) -> Any:
            # AutoGraph makes a tf.cond of it where `first` is a tensor.
            if first:  # noqa: SIM108
                result = tf.square(tensor)
            else:
                result = other(tensor)
            return result

        as_predicate = tf.constant if self.predicate == "tensor" else bool
        choices = [as_predicate(first) for first in ((True, False) if self.alternate else (True,))]

        def step() -> None:
            for first in choices:
                choose(source, first)

        return step


@dataclass(frozen=True)
class Retracing:
    """A `tf.function` called with several distinct arguments of one kind.

    Which kinds of argument make it trace again, what does that cost on the host, and does
    reduce_retracing help?
    """

    executions: ClassVar[Executions] = ("graph",)

    size: Count
    argument: Literal["tensor", "python_scalar", "numpy_scalar", "shape"]
    reduce_retracing: bool
    distinct: Count

    def build(self, bench: Bench) -> Step:
        import numpy as np
        import tensorflow as tf

        def tensor_of(rows: int) -> Any:
            return tf.ones([rows, self.size])

        numbers = range(2, self.distinct + 2)  # none is 1: a factor of 1 is optimised away
        if self.argument == "shape":
            calls = [(tensor_of(self.size + number), 2.0) for number in numbers]
        else:
            of_kind = {"tensor": tf.constant, "python_scalar": float, "numpy_scalar": np.float32}
            source = tensor_of(self.size)
            calls = [(source, of_kind[self.argument](float(number))) for number in numbers]

        def scale(tensor: Any, factor: Any) -> Any:
            return tensor * factor

        run = bench.compile(scale, reduce_retracing=self.reduce_retracing)

        def step() -> None:
            for arguments in calls:
                run(*arguments)

        return step
