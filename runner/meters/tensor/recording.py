"""Keep what the recorder notes of a running program, as values that the attribution reads.

Core: standard library and NumPy. Each thread of the program has a log: from each time on, the site
at which it was in TensorFlow.

    t1       site 4 begins: step (mine.py:7) calls MatMul in the scope "dense"
      t2     site 9 begins: a gradient's function, called from within
      t3     site 4 again
    t4       NONE: back in the program
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from runner.meters.tensor.buffer_plans import BufferPlans
from runner.meters.tensor.names import count_bytes, strip_library
from runner.meters.tensor.pipeline_stages import Output, PipelineStages
from runner.meters.tensor.python_stacks import CodeLine, PythonStacks
from runner.meters.tensor.window import NONE, Ints

AMBIGUOUS = -2
"""Several threads of the program were in TensorFlow when another of TensorFlow's allocated."""

SESSION = "session.run"
BUILDING = "building a graph"
"""The name of a call that is neither an op's nor a function's: what TensorFlow evaluates to know
the shapes of a graph's nodes is held by the graph."""


def can_run_nodes(called: str) -> bool:
    """Return whether what is called runs nodes of a graph: a function, or a session."""
    return called.startswith("__") or called == SESSION


class Site(NamedTuple):
    """A place from which TensorFlow is called."""

    stack: int
    scope: str
    """The name scope, which is Keras' layer."""
    called: str
    """The op or the function."""
    is_backward: bool
    """In a backward pass."""
    output: Output | None = None
    """Shape and dtype of the tensor that a value becomes."""

    @property
    def function(self) -> str:
        """The name of what is called, if it runs nodes of a graph."""
        return self.called if can_run_nodes(self.called) else ""

    def can_run(self, op: str) -> bool:
        """Return whether what is called may have an op run by another thread."""
        return bool(self.function) or not (op and self.called) or op == self.called


class Node(NamedTuple):
    """A node of a graph, as it was made."""

    stack: int
    """In a backward pass, that of the op which it differentiates, if that is known; or its own,
    where a line of the user's made it, as in a custom gradient."""
    is_backward: bool
    is_known: bool
    """True if the recorded stack overrides the node's name."""
    type: str
    outputs: tuple[Output, ...]


class CompiledCall(NamedTuple):
    """A node that calls a function which XLA compiles."""

    graph: str
    node: str
    function: str


class ThreadLog:
    """The calls of one thread, and the call that it is in now."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.times = array("q")
        self.sites = array("q")
        self.forgotten = 0
        """How many entries were dropped from the front."""
        self.site = NONE
        self.backward: int | None = None
        """Within a backward pass: the stack that asked for it."""
        self.passes: list[tuple[int, int]] = []
        """Begin and end of each backward pass that ran eagerly."""
        self.forward: Node | None = None
        """Within an op's gradient: the op, where its graph is known."""
        self.forward_scope = ""

    def find_sites(self, times: Ints) -> Ints:
        """Return where it was at each time; it may go on while this is asked."""
        size = min(len(self.times), len(self.sites))  # its thread may be between two appends
        when = np.array(self.times[:size], np.int64)
        where = np.append(np.array(self.sites[:size], np.int64), NONE)  # the last: before all
        return where[np.searchsorted(when, times, "right") - 1]

    def forget(self, before_ns: int) -> None:
        """Drop all but where the thread is."""
        del self.passes[: sum(end <= before_ns for _, end in self.passes)]
        times = np.array(self.times, np.int64)
        keep = max(int(np.searchsorted(times, before_ns, "right")) - 1, 0)
        del self.times[:keep], self.sites[:keep]
        self.forgotten += keep


@dataclass
class Recording:
    """Everything that was noted of one process."""

    stacks: PythonStacks | None = None
    """None where lines are not recorded."""
    plans: BufferPlans | None = None
    """XLA's own plans of its memory."""
    logs: dict[int, ThreadLog] = field(default_factory=dict)
    """By thread: where TensorFlow's own call Python, each call looks like a new one."""
    sites: list[Site] = field(default_factory=list)
    nodes: dict[str, dict[str, Node]] = field(default_factory=dict)
    """By the graph's name, by the node's."""
    compiled_calls: list[CompiledCall] = field(default_factory=list)
    pipelines: PipelineStages = field(default_factory=PipelineStages)
    _numbers: dict[Site, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def number_site(self, site: Site) -> int:
        """Return the site's place in `sites`."""
        number = self._numbers.get(site)
        if number is None:
            with self._lock:  # two threads may number one site twice, which does no harm
                number = self._numbers[site] = len(self.sites)
                self.sites.append(site)
        return number

    def find_sites(self, threads: Ints, times: Ints, ops: Sequence[str]) -> Ints:
        """Return the site of each thread at each time. Where it has none, as threads of
        TensorFlow's own pools, it is the site of the one thread that is in TensorFlow then; of
        several, of the one that called this op."""
        found = np.full(times.size, NONE, np.int64)
        others = np.full(times.size, NONE, np.int64)
        everywhere = []
        for log in list(self.logs.values()):
            at = log.find_sites(times)
            own = (threads == log.thread) & (at != NONE)
            found[own] = at[own]
            # NONE -> the first thread's site -> AMBIGUOUS, once a second one is elsewhere.
            clash = (at != NONE) & (others != NONE) & (others != at)
            others = np.where(clash, AMBIGUOUS, np.where(at != NONE, at, others))
            everywhere.append(at)
        for row in np.flatnonzero((found == NONE) & (others == AMBIGUOUS)).tolist():
            there = {int(at[row]) for at in everywhere if at[row] != NONE}
            fitting = [each for each in there if self.sites[each].called == strip_library(ops[row])]
            others[row] = fitting[0] if len(fitting) == 1 else AMBIGUOUS
        for row in np.flatnonzero((found == NONE) & (others >= 0)).tolist():
            if not self.sites[others[row]].can_run(strip_library(ops[row])):
                others[row] = NONE
        return np.where(found == NONE, others, found)

    def find_backward_passes(self, begin_ns: int, end_ns: int) -> Ints:
        """Return begin and end of each backward pass that Python ran then, of all threads, in
        order, a row each; one within another is a part of that."""
        found = [
            (begin, end)
            for log in list(self.logs.values())
            for begin, end in list(log.passes)
            if begin_ns <= begin < end_ns
        ]
        return np.array(sorted(found), np.int64).reshape(-1, 2)

    def forget(self, before_ns: int) -> None:
        """Drop what no later window asks for."""
        for log in list(self.logs.values()):
            log.forget(before_ns)


class Origin(NamedTuple):
    """The user's lines, outermost first; none where nothing is known, and why."""

    frames: tuple[CodeLine, ...] = ()
    scope: str = ""
    is_backward: bool = False
    is_library: bool = False
    """No line of the user's was on the stack: the frame is the nearest library's."""
    why: str | None = None
    called: str = ""
    """The op or the function that was being called."""
    outputs: tuple[Output, ...] = ()
    """The op's outputs, as far as Python knows."""
    node: str = ""
    """The name that a graph's node was made with; `op` is its type."""
    op: str = ""

    def find_output(self, size: int) -> Output | None:
        """Return the output of so many bytes; or one whose shape is not known before it is made."""
        sizes = {count_bytes(*each): each for each in reversed(self.outputs)}
        return sizes.get(size, sizes.get(None))

    @property
    def is_eager(self) -> bool:
        return bool(self.called) and not can_run_nodes(self.called)
