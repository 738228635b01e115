"""Run a step as Python goes, as a graph, under XLA, or by a session; count what tracing made.
Child side.

Counted are traces, nodes of the traced graphs, and nodes that steady steps add.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from runner.facts import TrialFacts

Function = TypeVar("Function", bound=Callable[..., Any])


class Execution:
    """One of `eager`, `graph`, `xla`, `session`; made in the child, before the first op."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._traces = 0
        self._graphs: list[weakref.ref[Any]] = []
        self._users: list[weakref.ref[Any]] = []
        """Functions that were a `tf.function` already, and so count their traces themselves."""
        self._users_traces = 0
        self._nodes: list[int] = []
        """At each `observe`."""
        if name == "session":
            tf.compat.v1.disable_eager_execution()

    def compile(self, function: Function, *, reduce_retracing: bool = False) -> Function:
        """Return the function as this execution runs it."""
        is_compiled = isinstance(function, tf.types.experimental.PolymorphicFunction)
        if is_compiled and self.name in ("eager", "graph"):
            self._users.append(weakref.ref(function))
            return function
        if self.name not in ("graph", "xla"):
            return function

        @functools.wraps(function)
        def note_trace(*args: Any, **kwargs: Any) -> Any:  # runs once a trace, within its graph
            graph = tf.compat.v1.get_default_graph()
            self._traces += 1
            outer = getattr(graph, "outer_graph", None)
            if not getattr(outer, "building_function", False):  # else in its caller's library
                self._graphs.append(weakref.ref(graph))
            return function(*args, **kwargs)

        return tf.function(  # type: ignore[no-any-return]
            note_trace,
            jit_compile=True if self.name == "xla" else None,
            reduce_retracing=reduce_retracing,
        )

    def observe(self) -> None:
        """Count what there is now, of all graphs that are alive, their functions included; called
        after the warm-up and after the last step."""
        users = [user for reference in self._users if (user := reference()) is not None]
        self._users_traces = sum(user.experimental_get_tracing_count() for user in users)
        if self.name == "session":
            self._nodes.append(len(tf.compat.v1.get_default_graph().get_operations()))
            return
        graphs = [graph for reference in self._graphs if (graph := reference()) is not None]
        for function in users:
            graphs += [concrete.graph for concrete in function._list_all_concrete_functions()]
        total = 0
        for graph in graphs:
            definition = graph.as_graph_def()
            functions = definition.library.function
            total += len(definition.node) + sum(len(function.node_def) for function in functions)
        self._nodes.append(total)

    def describe_graphs(self, steps_between: int) -> TrialFacts:
        """Return the graph's metrics, where there is a graph."""
        if self.name == "own" or (self.name == "eager" and not self._users):
            return TrialFacts()
        growth = (self._nodes[-1] - self._nodes[0]) / steps_between if steps_between else 0.0
        traces = self._traces + self._users_traces
        return TrialFacts(
            graph_traces=None if self.name == "session" else traces,
            graph_nodes=self._nodes[-1],
            graph_nodes_per_step=int(growth) if growth.is_integer() else growth,
        )
