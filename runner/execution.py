"""How a step is run: as Python goes, as a graph, under XLA, or by a session. Child side.

Also counts what tracing made: traces, nodes of the traced graphs, nodes added by steady steps.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Execution:
    """One of `eager`, `graph`, `xla`, `session`; made in the child, before the first op."""

    def __init__(self, name: str) -> None:
        import tensorflow as tf

        self.name = name
        self.traces = 0
        self._graphs: list[weakref.ref[Any]] = []
        self._nodes: list[int] = []
        if name == "session":
            tf.compat.v1.disable_eager_execution()

    def compile(self, function: Function, *, reduce_retracing: bool = False) -> Function:
        if self.name not in ("graph", "xla"):
            return function
        import tensorflow as tf

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
        """Count the nodes there are now; called after the warm-up and after the last step."""
        self._nodes.append(self._count_nodes())

    def facts(self, steps_between: int) -> dict[str, int | float]:
        """The graph's metrics, for an execution that has a graph."""
        if self.name == "eager":
            return {}
        first, last = self._nodes[0], self._nodes[-1]
        growth = (last - first) / steps_between if steps_between else 0.0
        nodes = {
            "graph_nodes": last,
            "graph_nodes_per_step": int(growth) if growth.is_integer() else growth,
        }
        return nodes if self.name == "session" else {"graph_traces": self.traces, **nodes}

    def _count_nodes(self) -> int:
        import tensorflow as tf

        if self.name == "session":
            return len(tf.compat.v1.get_default_graph().get_operations())
        total = 0
        for reference in self._graphs:
            graph = reference()
            if graph is not None:
                definition = graph.as_graph_def()
                functions = definition.library.function
                total += len(definition.node) + sum(len(each.node_def) for each in functions)
        return total
