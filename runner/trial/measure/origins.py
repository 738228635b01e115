"""Where an allocation comes from, as values, and what a graph's node was called before TensorFlow
gave it another name.

Core: standard library and NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from runner.trial.measure.names import bytes_of
from runner.trial.measure.xla import Buffer
from runner.trial.measure.xplane import Ints

SESSION = "session.run"
BUILDING = "building a graph"
"""What is called where it is neither an op nor a function: what TensorFlow evaluates to know the
shapes of a graph's nodes is held by the graph."""


PIPELINE = "tf.data"
"""The same where no call is under way, but a data pipeline prepares what will be asked for."""

Output = tuple[tuple[int, ...] | None, int]
"""A tensor's shape and TensorFlow's number of its dtype."""


class Frame(NamedTuple):
    """A line on the Python stack."""

    file: str
    line: int
    function: str


def _runs_nodes(called: str) -> bool:
    return called.startswith("__") or called == SESSION


class Site(NamedTuple):
    """A place from which TensorFlow is called: the number of its stack, the name scope, which is
    Keras' layer, the op or function that is called, whether in a backward pass, and of a value that
    becomes a tensor what it becomes."""

    stack: int
    scope: str
    called: str
    is_backward: bool
    output: Output | None = None

    @property
    def function(self) -> str:
        """What is called, if it runs nodes of a graph."""
        return self.called if _runs_nodes(self.called) else ""

    def may_run(self, op: str) -> bool:
        """Whether what is called may have an op run by another thread."""
        return bool(self.function) or not (op and self.called) or op == self.called


class Origin(NamedTuple):
    """The user's lines, outermost first; none where nothing is known, and why."""

    frames: tuple[Frame, ...]
    scope: str
    is_backward: bool
    is_library: bool
    """No line of the user's was on the stack: the frame is the nearest library's."""
    why: str | None = None
    called: str = ""
    """The op or the function that was being called."""
    outputs: tuple[Output, ...] = ()
    """What the op makes, as far as Python knows."""
    node: str = ""
    """Of a graph: the name that the node was made with, and its op type."""
    op: str = ""

    def output(self, size: int) -> Output | None:
        """The one that takes so many bytes; or one whose shape is not known before it is made."""
        sizes = {bytes_of(*each): each for each in reversed(self.outputs)}
        return sizes.get(size, sizes.get(None))

    @property
    def is_eager(self) -> bool:
        return bool(self.called) and not _runs_nodes(self.called)


class Witness(Protocol):
    """Who can say where an allocation comes from."""

    def sites(self, threads: Ints, times: Ints, ops: Sequence[str]) -> Ints:
        """Who was calling, for each allocation: of the op, where TensorFlow names one."""
        ...

    def origin(self, number: int, op: str) -> Origin: ...

    def in_pipeline(self, stages: str, op: str) -> Origin:
        """Of what a data pipeline allocates: in this stage, whose path TensorFlow names."""
        ...

    def compiled(self, call: Origin, size: int) -> Origin:
        """The call of the function that XLA compiled, which may be within the one that Python
        called."""
        ...

    def backward(self, begin_ns: int, end_ns: int) -> Ints:
        """Begin and end of each backward pass that Python ran then, a row each."""
        ...

    def forget(self, before_ns: int) -> None: ...

    def opened(self, function: str, size: int) -> tuple[tuple[Buffer, ...], ...]: ...

    def node(self, name: str, call: Origin) -> Origin: ...


NOTHING_KNOWN = Origin((), "", False, False, "lines were not recorded")


class NoWitness:
    """Knows of no line."""

    def sites(self, threads: Ints, times: Ints, ops: Sequence[str]) -> Ints:
        return -1 + 0 * times

    def origin(self, number: int, op: str) -> Origin:
        return NOTHING_KNOWN

    def in_pipeline(self, stages: str, op: str) -> Origin:
        return NOTHING_KNOWN

    def compiled(self, call: Origin, size: int) -> Origin:
        return call

    def backward(self, begin_ns: int, end_ns: int) -> Ints:
        return np.zeros((0, 2), np.int64)

    def forget(self, before_ns: int) -> None:
        pass

    def opened(self, function: str, size: int) -> tuple[tuple[Buffer, ...], ...]:
        return ()

    def node(self, name: str, call: Origin) -> Origin:
        return call


_FOLDED = re.compile(r"/_\d+__cf__\d+$")
_LAYOUT = re.compile(r"-\d+-.*(?:LayoutOptimizer|_LayoutOptimizer)$")
_STAGE = re.compile(
    r"(?:^|(?<=/))(?:ArithmeticOptimizer|ConstantFolding|LayoutOptimizer|Remapper)/"
)
_STAGE_NAME = re.compile(r"^[A-Z][A-Za-z]+_")
_RECOMPUTED = re.compile(r"(?:^|(?<=/))(?:Recomputed|swap_(?:in|out))[/_]")
_GRADIENT = re.compile(r"(?:.*/)?gradient(?:s|_tape)(?:_\d+)?/")


def original_names(node: str) -> Iterator[tuple[str, bool]]:
    """What a node may have been called when it was made, the likeliest name first, each with
    whether the node is its gradient: `gradient_tape/dense/MatMul/MatMul_1` is the gradient of
    `dense/MatMul`, which is whose line it gets; a node that the optimiser made has its name from
    one that was there; an inlined function's node has its caller's name in front.
    """
    for name in _unoptimised(node):
        gradient = _GRADIENT.match(name)
        if not gradient:
            yield from ((each, False) for each in _inner(name))
            continue
        forward = re.sub(r"_grad(?:_\d+)?(?=/|$)", "", name[gradient.end() :])
        parts = forward.split("/")
        for length in range(len(parts), 0, -1):
            yield from ((each, True) for each in _inner("/".join(parts[:length])))
        yield from ((each, True) for each in _inner(name))  # as it is: the line that asked for it


def spellings(node: str) -> Iterator[str]:
    """The names under which a node may have been made, whatever it is for."""
    for name in _unoptimised(node):
        yield from _inner(name)


def _unoptimised(node: str) -> Iterator[str]:
    yield node
    name = _RECOMPUTED.sub("", _LAYOUT.sub("", _FOLDED.sub("", node)))
    if (stage := _STAGE.search(name)) is not None:
        scope, rest = name[: stage.start()], name[stage.end() :]
        while True:
            yield scope + rest
            shorter = _STAGE_NAME.sub("", rest)
            if shorter == rest:
                break
            rest = shorter
        rest = re.sub(r"(?:_recip|_enter|_merged_input|_\d+|(?:-\w+)+)$", "", rest)
        yield scope + rest
    elif name != node:
        yield name


def around(node: str) -> Iterator[str]:
    """The names of what a node may be a part of, the innermost first: the optimiser puts what it
    makes of `Sin` below it, as `Sin/unary_ops_composition`, and a loop has its parts below it."""
    for name in _unoptimised(node):
        parts = name.split("/")
        for length in range(len(parts) - 1, 0, -1):
            yield from _inner("/".join(parts[:length]))


def _inner(name: str) -> Iterator[str]:
    """Itself, and without what calls put in front."""
    parts = name.split("/")
    for start in range(len(parts)):
        yield "/".join(parts[start:])
