"""TensorFlow 1 style: a graph is built first, and a session runs it. What grows, and when it fills.

What a graph holds is host memory (ops, and the values of constants); what a session holds is tensor
memory. A session's optimizer folds constants: an op on nothing but constants becomes one itself.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from runner.config import Count
from runner.scenario import Bench, Executions, Step


@dataclass(frozen=True)
class SessionLoop:
    """A loop around a session that runs the square of a constant, in a graph that grows or not.

    Is it the ops that each iteration adds, the session or the names that make memory grow?
    """

    executions: ClassVar[Executions] = ("session",)

    elements: Count
    graph: Literal["grown", "fixed", "fresh"]
    session: Literal["per_step", "shared"]
    delete: bool

    def __post_init__(self) -> None:
        if self.graph == "fresh" and self.session == "shared":
            raise ValueError("graph=fresh needs session=per_step: a session has one graph for life")

    def build(self, bench: Bench) -> Step:
        import numpy as np
        import tensorflow as tf

        # All different, as data is: equal elements would shrink to one in the graph.
        values = np.arange(self.elements, dtype=np.float32)

        def add_ops() -> tuple[Any, Any]:
            constant = tf.constant(values)
            return constant, tf.square(constant)

        constant: Any = None
        square: Any = None
        if self.graph == "fixed":
            constant, square = add_ops()
        shared = tf.compat.v1.Session() if self.session == "shared" else None

        def step() -> Any:
            nonlocal constant, square  # a script's names: they last until they are bound anew
            fresh = tf.Graph().as_default() if self.graph == "fresh" else contextlib.nullcontext()
            with fresh:
                if self.graph != "fixed":
                    constant, square = add_ops()
                if shared is not None:
                    result = shared.run(square)
                else:
                    with tf.compat.v1.Session() as session:
                        result = session.run(square)
            if self.delete and self.graph != "fixed":
                del constant, square
            return result

        return step


@dataclass(frozen=True)
class DeferredAllocation:
    """A placeholder, a constant or a variable in a graph, squared when a session runs it.

    Is its memory taken when it is made (`build`), or when a session first runs (`first_call`)?
    """

    executions: ClassVar[Executions] = ("session",)

    elements: Count
    holds: Literal["placeholder", "constant", "variable"]

    def build(self, bench: Bench) -> Step:
        import numpy as np
        import tensorflow as tf

        v1 = tf.compat.v1
        values = misaligned(np.arange(self.elements, dtype=np.float32))
        feed: dict[Any, Any] = {}
        held: Any
        if self.holds == "placeholder":
            held = v1.placeholder(tf.float32, [self.elements])
            feed = {held: values}
        elif self.holds == "constant":
            held = tf.constant(values)
        else:
            held = v1.get_variable("held", [self.elements], initializer=v1.ones_initializer())
        square = tf.square(held)
        initializer = v1.global_variables_initializer() if self.holds == "variable" else None
        session = v1.Session()

        def step() -> Any:
            nonlocal initializer
            if initializer is not None:
                session.run(initializer)
                initializer = None
            return session.run(square, feed)

        return step


@dataclass(frozen=True)
class VariableScope:
    """One variable name in several scopes; each step opens a session, initializes and sums them.

    Who allocates, `get_variable` or the initializer; does a name collide across scopes; does a
    session that is not closed keep its variables?
    """

    executions: ClassVar[Executions] = ("eager", "session")

    size: Count
    scopes: Count
    close_session: bool

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        v1 = tf.compat.v1
        variables = []
        for number in range(self.scopes):
            with v1.variable_scope(f"scope{number}"):
                variables.append(
                    v1.get_variable(
                        "weight", [self.size, self.size], initializer=v1.ones_initializer()
                    )
                )

        if bench.execution == "eager":
            return lambda: [tf.reduce_sum(variable, [0, 1]) for variable in variables]

        sums = [tf.reduce_sum(variable, [0, 1]) for variable in variables]
        initializer = v1.global_variables_initializer()
        session: Any = None

        def step() -> Any:
            nonlocal session  # a script's name: it holds the session until it is bound anew
            session = v1.Session()
            session.run(initializer)
            results = session.run(sums)
            if self.close_session:
                session.close()
            return results

        return step


def misaligned(values: Any) -> Any:
    """Copy values to where NumPy puts large arrays: not at a multiple of 64 bytes. TensorFlow
    copies what is fed from there, and would share it otherwise; where it lies is chance for small
    arrays."""
    import numpy as np

    space = np.empty(len(values) + 17, values.dtype)
    past = space.ctypes.data % 64 // 4
    moved = space[16 - past + 1 :][: len(values)]
    moved[:] = values
    return moved
