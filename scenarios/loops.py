"""Loops over a state: the same multiplication, repeated in four ways.

The state is `[batch_size, size]`, float32, M bytes. Each iteration multiplies it by a fixed
`[size, size]` weight made in `build`, so nothing but the way of looping differs between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from runner.config import Count
from runner.scenario import Bench, Executions, Step, Varies, Varying


def _state_and_weight(bench: Bench, size: int) -> tuple[Any, Any]:
    """Return both, each made by one allocation, so that building them is never the peak. A product
    with this weight is the row's mean: values neither overflow nor become denormal, which is
    slow."""
    import tensorflow as tf

    return tf.ones([bench.batch_size, size]), tf.fill([size, size], 1.0 / size)


def _with_gradient(run: Any, watch: bool = True) -> Any:
    """Return `run`, followed by the gradient of its result with respect to the initial state."""
    import tensorflow as tf

    def run_and_differentiate(state: Any, weight: Any) -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            if watch:
                tape.watch(state)
            result = run(state, weight)
        return result, tape.gradient(result, state)

    return run_and_differentiate


@dataclass(frozen=True)
class PythonLoop:
    """A Python `for` around TensorFlow ops; as a graph, it is unrolled.

    Does it keep every iteration's state? If so, is the tape the cause?
    """

    executions: ClassVar[Executions] = ("eager", "graph", "xla")
    varies: ClassVar[Varying] = {
        "graph": Varies(peak=0.4, when=lambda loop: loop.gradient == "tape")
    }

    iterations: Count
    size: Count
    gradient: Literal["none", "tape"]
    stop_gradient: bool
    watch: bool

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        state, weight = _state_and_weight(bench, self.size)

        def loop(state: Any, weight: Any) -> Any:
            for _ in range(self.iterations):
                state = tf.matmul(state, weight)
                if self.stop_gradient:
                    state = tf.stop_gradient(state)
            return state

        differentiate = self.gradient == "tape"
        run = bench.compile(_with_gradient(loop, self.watch) if differentiate else loop)
        return lambda: run(state, weight)


@dataclass(frozen=True)
class WhileLoop:
    """`tf.while_loop`: one body, run again and again by the runtime.

    Does it need less memory than the same loop in Python, with a gradient and without?
    """

    executions: ClassVar[Executions] = ("graph", "eager", "xla")
    varies: ClassVar[Varying] = {"graph": Varies(peak=0.3)}

    iterations: Count
    size: Count
    gradient: Literal["none", "tape"]
    stop_gradient: bool
    parallel_iterations: Count
    swap_memory: bool
    shape_invariants: bool

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        state, weight = _state_and_weight(bench, self.size)
        invariants = (tf.TensorShape([]), state.shape) if self.shape_invariants else None

        def loop(state: Any, weight: Any) -> Any:
            def body(iteration: Any, state: Any) -> Any:
                state = tf.matmul(state, weight)
                if self.stop_gradient:
                    state = tf.stop_gradient(state)
                return iteration + 1, state

            _, last = tf.while_loop(
                lambda iteration, _: iteration < self.iterations,
                body,
                (tf.constant(0), state),  # a tuple, as the body returns: eager mode insists
                shape_invariants=invariants,
                parallel_iterations=self.parallel_iterations,
                swap_memory=self.swap_memory,
                maximum_iterations=self.iterations,
            )
            return last

        run = bench.compile(_with_gradient(loop) if self.gradient == "tape" else loop)
        return lambda: run(state, weight)


@dataclass(frozen=True)
class NumpyLoop:
    """The whole loop in NumPy, with one conversion at the end.

    Does it spare memory and time, and how much of both is float32 instead of NumPy's float64?
    """

    executions: ClassVar[Executions] = ("eager",)

    iterations: Count
    size: Count
    dtype: Literal["float64", "float32"]

    def build(self, bench: Bench) -> Step:
        import numpy as np
        import tensorflow as tf

        state = np.ones((bench.batch_size, self.size), self.dtype)
        weight = np.full((self.size, self.size), 1.0 / self.size, self.dtype)

        def step() -> Any:
            result = state
            for _ in range(self.iterations):
                result = result @ weight
            return tf.constant(result)

        return step


@dataclass(frozen=True)
class VariableLoop:
    """A loop that writes each state into one variable instead of a new tensor.

    Does updating in place avoid the new tensors, or is each product allocated all the same?
    """

    executions: ClassVar[Executions] = ("eager", "graph")

    iterations: Count
    size: Count
    update: Literal["assign", "assign_add"]

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        state, weight = _state_and_weight(bench, self.size)
        variable = tf.Variable(state)

        @bench.compile
        def run(weight: Any) -> Any:
            for _ in range(self.iterations):
                product = tf.matmul(variable, weight)
                if self.update == "assign":
                    variable.assign(product)
                else:
                    variable.assign_add(product)
            return variable.read_value()

        return lambda: run(weight)
