"""How a step is run: as Python goes, as a graph, under XLA, or by a session. Child side.

Also counts what tracing made: traces, nodes of the traced graphs, nodes added by steady steps.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Execution:
    """One of `eager`, `graph`, `xla`, `session`; made in the child, before the first op."""

    def __init__(self, name: str) -> None:
        import tensorflow as tf

        self.name = name
        self.traces = 0
        self._graphs: list[weakref.ref[Any]] = []
        self._as_they_came: list[weakref.ref[Any]] = []
        """Functions that were a `tf.function` already, and so count their traces themselves."""
        self._traces_as_they_came = 0
        self._nodes: list[int] = []
        if name == "session":
            tf.compat.v1.disable_eager_execution()

    def compile(self, function: Function, *, reduce_retracing: bool = False) -> Function:
        import tensorflow as tf

        traced_already = isinstance(function, tf.types.experimental.PolymorphicFunction)
        if traced_already and self.name in ("eager", "graph"):
            self._as_they_came.append(weakref.ref(function))
            return function
        if self.name not in ("graph", "xla"):
            return function

        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            self._note_trace()
            return function(*args, **kwargs)

        return tf.function(  # type: ignore[no-any-return]
            traced,
            jit_compile=True if self.name == "xla" else None,
            reduce_retracing=reduce_retracing,
        )

    def _note_trace(self) -> None:
        """Called by every trace, from inside it."""
        import tensorflow as tf

        graph = tf.compat.v1.get_default_graph()
        self.traces += 1
        outer = getattr(graph, "outer_graph", None)
        if not getattr(
            outer, "building_function", False
        ):  # an inner one is in its caller's library
            self._graphs.append(weakref.ref(graph))

    def observe(self) -> None:
        """Count what there is now; called after the warm-up and after the last step."""
        self._traces_as_they_came = sum(
            each.experimental_get_tracing_count() for each in self._alive()
        )
        self._nodes.append(self._count_nodes())

    def facts(self, steps_between: int) -> dict[str, int | float]:
        """The graph's metrics, where there is a graph."""
        if self.name == "eager" and not self._as_they_came:
            return {}
        first, last = self._nodes[0], self._nodes[-1]
        growth = (last - first) / steps_between if steps_between else 0.0
        nodes = {
            "graph_nodes": last,
            "graph_nodes_per_step": int(growth) if growth.is_integer() else growth,
        }
        if self.name == "session":
            return nodes
        return {"graph_traces": self.traces + self._traces_as_they_came, **nodes}

    def _count_nodes(self) -> int:
        import tensorflow as tf

        if self.name == "session":
            return len(tf.compat.v1.get_default_graph().get_operations())
        total = 0
        for graph in self._traced_graphs():
            definition = graph.as_graph_def()
            functions = definition.library.function
            total += len(definition.node) + sum(len(each.node_def) for each in functions)
        return total

    def _traced_graphs(self) -> Iterator[Any]:
        for reference in self._graphs:
            graph = reference()
            if graph is not None:
                yield graph
        for function in self._alive():
            for concrete in function._list_all_concrete_functions():
                yield concrete.graph

    def _alive(self) -> Iterator[Any]:
        return filter(None, (reference() for reference in self._as_they_came))
