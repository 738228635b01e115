"""One op, or a short chain of them, on inputs that are there already: what does it allocate?

`OPS` is the table: a name, and a small function of TensorFlow and of the inputs that it asks for by
name. Another op is another line.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from runner.config import Count
from runner.errors import BadInput, suggest
from runner.scenario import Bench, Executions, Step

INPUTS: dict[str, Callable[[Any, int], Any]] = {
    "size": lambda tf, size: size,
    "x": lambda tf, size: tf.ones([size, size]),
    "y": lambda tf, size: tf.ones([size, size]),
    "mask": lambda tf, size: tf.fill([size, size], True),
    "row": lambda tf, size: tf.ones([size]),
    "labels": lambda tf, size: tf.zeros([size], tf.int32),
    "half": lambda tf, size: tf.range(max(1, size // 2)),
    "half_rows": lambda tf, size: tf.ones([max(1, size // 2), size]),
    "variable": lambda tf, size: tf.Variable(tf.ones([size, size])),
}  # fmt: skip
"""What an op may ask for, each made by one allocation and not by a chain of them."""


def _nothing(_: object) -> None:
    """Run an op for its effect: it keeps no result."""


OPS: dict[str, Callable[..., Any]] = {
    # creation
    "constant": lambda tf, size: tf.constant(1.0, shape=[size, size]),
    "constant_long": lambda tf, size: tf.constant(1, tf.int64, shape=[size, size]),
    "texts": lambda tf, size: tf.fill([size, size], "a" * 100),
    "zeros": lambda tf, size: tf.zeros([size, size]),
    "ones": lambda tf, size: tf.ones([size, size]),
    "fill": lambda tf, size: tf.fill([size, size], 2.0),
    "range": lambda tf, size: tf.range(size * size),
    "eye": lambda tf, size: tf.eye(size),
    "zeros_like": lambda tf, x: tf.zeros_like(x),
    "random_normal": lambda tf, size: tf.random.normal([size, size]),
    "random_uniform": lambda tf, size: tf.random.uniform([size, size]),
    # views
    "identity": lambda tf, x: tf.identity(x),
    "stop_gradient": lambda tf, x: tf.stop_gradient(x),
    "reshape": lambda tf, x: tf.reshape(x, [-1]),
    "expand_dims": lambda tf, x: tf.expand_dims(x, 0),
    "squeeze": lambda tf, x: tf.squeeze(x),
    "bitcast": lambda tf, x: tf.bitcast(x, tf.int32),
    "cast_same": lambda tf, x: tf.cast(x, tf.float32),
    "slice_rows": lambda tf, x: x[x.shape[0] // 2 :],
    "slice_columns": lambda tf, x: x[:, x.shape[1] // 2 :],
    # copies
    "cast_half": lambda tf, x: tf.cast(x, tf.float16),
    "transpose": lambda tf, x: tf.transpose(x),
    "reverse": lambda tf, x: tf.reverse(x, [0]),
    "concat": lambda tf, x, y: tf.concat([x, y], 0),
    "stack": lambda tf, x, y: tf.stack([x, y]),
    "split": lambda tf, x: tf.split(x, [1, x.shape[0] - 1]),
    "gather": lambda tf, x, half: tf.gather(x, half),
    "tile": lambda tf, x: tf.tile(x, [2, 1]),
    "pad": lambda tf, x: tf.pad(x, [[0, 1], [0, 0]]),
    "one_hot": lambda tf, labels: tf.one_hot(labels, labels.shape[0]),
    "broadcast_to": lambda tf, row: tf.broadcast_to(row, [row.shape[0], row.shape[0]]),
    # element-wise
    "add": lambda tf, x, y: x + y,
    "multiply": lambda tf, x, y: x * y,
    "add_row": lambda tf, x, row: x + row,
    "sqrt": lambda tf, x: tf.sqrt(x),
    "relu": lambda tf, x: tf.nn.relu(x),
    "tanh": lambda tf, x: tf.tanh(x),
    "where": lambda tf, mask, x, y: tf.where(mask, x, y),
    "add_chain": lambda tf, x, y: x + y + y + y,
    "relu_chain": lambda tf, x: tf.nn.relu(tf.nn.relu(tf.nn.relu(x))),
    "tanh_chain": lambda tf, x: tf.tanh(tf.tanh(tf.tanh(x))),
    "mixed_chain": lambda tf, x, y: tf.tanh(tf.nn.relu(x + y)),
    # reductions
    "reduce_sum": lambda tf, x: tf.reduce_sum(x, [0, 1]),
    "reduce_mean": lambda tf, x: tf.reduce_mean(x, [0, 1]),
    "reduce_rows": lambda tf, x: tf.reduce_max(x, axis=1),
    "argmax": lambda tf, x: tf.argmax(x, axis=1),
    "cumsum": lambda tf, x: tf.cumsum(x),
    # linear algebra, neural networks, order
    "matmul": lambda tf, x, y: x @ y,
    "matmul_transposed": lambda tf, x, y: tf.matmul(x, y, transpose_b=True),
    "softmax": lambda tf, x: tf.nn.softmax(x),
    "dropout": lambda tf, x: tf.nn.dropout(x, 0.5),
    "sort": lambda tf, x: tf.sort(x),
    "top_k": lambda tf, x: tf.math.top_k(x),
    # variables
    "variable_read": lambda tf, variable: variable.read_value(),
    "assign": lambda tf, variable, x: _nothing(variable.assign(x)),
    "assign_add": lambda tf, variable, x: _nothing(variable.assign_add(x)),
    "assign_sub": lambda tf, variable, x: _nothing(variable.assign_sub(x)),
    "read_then_assign_add": lambda tf, variable, x: _read_then_assign_add(variable, x),
    "scatter_update": lambda tf, variable, half, half_rows: _nothing(
        variable.scatter_update(tf.IndexedSlices(half_rows, half))
    ),
    "scatter_add": lambda tf, variable, half, half_rows: _nothing(
        variable.scatter_add(tf.IndexedSlices(half_rows, half))
    ),
}


def _read_then_assign_add(variable: Any, x: Any) -> Any:
    """Hold what was read: it must not change, so the update can't be in place meanwhile."""
    before = variable.read_value()
    variable.assign_add(x)
    return before


KEPT_RESULTS = 32
"""More than a memory trial has steps; few enough for the hundreds of steps of a timing trial."""


@dataclass(frozen=True)
class OpAllocation:
    """One op on inputs made beforehand, with the result of every step kept.

    Does the op allocate, how much, and does it stay? `allocated_bytes_per_step` is what it asks
    for, `tensor_growth_bytes_per_step` what its result keeps of that; the rest is passing.
    """

    executions: ClassVar[Executions] = ("eager", "graph")

    op: str
    size: Count

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise BadInput(f"scenario.op: {self.op!r} is no op.", suggest(self.op, OPS))

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        op = OPS[self.op]
        names = list(inspect.signature(op).parameters)[1:]
        inputs = [INPUTS[name](tf, self.size) for name in names]
        run = bench.compile(tf.autograph.experimental.do_not_convert(lambda *xs: op(tf, *xs)))
        results: deque[Any] = deque(maxlen=KEPT_RESULTS)

        return lambda: results.append(run(*inputs))
