"""Define the columns that the trace reader makes of one profiler file, and the names it knows.
Core: standard library and NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MARK = "runner/"
"""How the names of our own marks begin, so that no name of the user's is taken for one. Without a
colon, or the profiler would take them for ops."""

DROPPED = "dropped"
"""The stat of a mark that does not count: what it was put around was no phase, and no step."""

MARKING = 0
"""In the column of threads: the one that made the marks."""

NONE = -1
"""In a column of codes: the event has no such stat."""

CONSTANT = "tf.constant"
"""The span in which a Python value becomes a tensor."""
EAGER_OP = "EagerLocalExecute: "
"""How the span of an eager op begins, before the op's type."""
EXECUTABLE = "Executable::Execute"
"""In the name of the span in which XLA runs what it compiled."""
ITERATOR = "Iterator::"
"""How the span begins in which a stage of a data pipeline makes an element: its path of stages."""


class Mark(NamedTuple):
    """A span that we put around a phase or a step."""

    name: str
    step: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Columns:
    """A table: its fields that are arrays are columns of one length."""

    @property
    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        return {name: each for name, each in vars(self).items() if isinstance(each, np.ndarray)}

    def take(self, rows: Ints | Bools) -> Self:
        """Return these rows, in this order."""
        return replace(self, **{name: each[rows] for name, each in self._arrays.items()})

    def join(self, *others: Self) -> Self:
        """Return these rows, and below them those of the others."""
        tables = [each._arrays for each in (self, *others)]
        names = self._arrays
        return replace(self, **{n: np.concatenate([each[n] for each in tables]) for n in names})


@dataclass(frozen=True)
class Window(Columns):
    """The allocation events of one profiler file, a row each, ordered by time, and its marks.

    `allocator`, `op`, `shape` and `within` are codes into `names`, or `NONE`.
    """

    time_ns: Ints
    freed: Bools
    thread: Ints
    """The operating system's number of the thread; `MARKING` of the one that made the marks: in a
    forked process TensorFlow has another number for it."""
    address: Ints
    requested_bytes: Ints
    allocated_bytes: Ints
    in_use_bytes: Ints
    peak_bytes: Ints
    dtype: Ints
    allocator: Ints
    op: Ints
    shape: Ints
    within: Ints
    """The name of the innermost span around an allocation without a shape, if it is an op's, an
    XLA executable's or a data pipeline's: TensorFlow names no op for some of these, and a whole
    function for others."""
    on_data_thread: Bools
    """On a thread of tf.data's own."""
    names: tuple[str, ...]
    marks: tuple[Mark, ...]
    op_types: dict[str, str]
    """The op type of each graph node that the profiler named with its type."""

    def text(self, code: int) -> str:
        """Return the name of a code, "" for `NONE`."""
        return "" if code == NONE else self.names[code]
