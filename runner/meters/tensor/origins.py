"""Find where an allocation comes from: an ordered list of rules, the first that fits answers.

    where                                                    the answer
    no lines were recorded                                   "lines were not recorded"
    TensorFlow names a stage of a data pipeline, or it is    the line of the stage that holds it,
    on a data thread and nobody calls                        else of the node in the function of the
                                                             stage that makes it, or of this one
    a graph runs, or nobody calls; the node is known         the line that made the node
    an op is called, another is allocated for: one of a      as for a stage
    pipeline's function, run by who asks for an element
    several threads call                                     why there is no line
    nobody calls                                             why there is no line
    else                                                     the line that calls

Core: standard library and NumPy. What a data thread allocates while only a library's line is known
is the pipeline's, too.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from runner.meters.tensor import names
from runner.meters.tensor.node_names import list_enclosing, list_original_names, list_spellings
from runner.meters.tensor.recording import AMBIGUOUS, Node, Origin, Recording, Site
from runner.meters.tensor.window import NONE

PIPELINE = "tf.data"
"""The name of the call where a data pipeline prepares what will be asked for."""

UNRECORDED = Origin(why="lines were not recorded")

_PIPELINE_GRAPH = "Dataset_"
"""How TensorFlow names the graphs of a data pipeline's functions."""


class AllocationEvent(NamedTuple):
    """One allocation, as far as its origin depends on it."""

    site: int
    """The caller: a place in `Recording.sites`, `NONE` or `AMBIGUOUS`."""
    node: str = ""
    """TensorFlow's word for the op: a node of a graph, an op's type, or nothing."""
    stages: str = ""
    """The path of the stage of a data pipeline that it lies within."""
    on_data_thread: bool = False
    bytes: int = 0


class OriginFinder:
    """Applies the rules above to what was recorded of one process."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def find(self, event: AllocationEvent) -> Origin:
        """Return the origin of an allocation; of one that nobody knows, why."""
        found = self._apply_rules(event)
        return self._find_in_pipeline(event) if event.on_data_thread and found.is_library else found

    def _apply_rules(self, event: AllocationEvent) -> Origin:
        if self._recording.stacks is None:
            return UNRECORDED
        if event.stages or (event.on_data_thread and event.site == NONE):
            return self._find_in_pipeline(event)
        site = self._recording.sites[event.site] if event.site >= 0 else None
        if site is None or site.function:
            found = self.find_node(event.node, site.function if site else "")
            if found is not None:
                is_backward = found.is_backward or (site is not None and site.is_backward)
                return found._replace(is_backward=is_backward, called=site.called if site else "")
        elif self._is_of_pipeline(site, event.node):
            return self._find_in_pipeline(event)
        if event.site == AMBIGUOUS:
            return Origin(why="several threads were in TensorFlow at that time")
        if site is None:
            return Origin(why="no call into TensorFlow was under way")
        return self._find_caller(site)

    def _is_of_pipeline(self, site: Site, node: str) -> bool:
        """Return whether the op is not the one called, and a node of a pipeline's function."""
        if not site.called or names.strip_library(node) == site.called:
            return False
        return bool(self._list_pipeline_nodes(node))

    def _list_pipeline_nodes(self, node: str) -> set[str]:
        """Return the names under which pipelines' functions have a node."""
        nodes = self._recording.nodes
        return {
            name
            for name in list_spellings(node)
            if any(graph.startswith(_PIPELINE_GRAPH) for graph in nodes.get(name, ()))
        }

    def _find_caller(self, site: Site) -> Origin:
        scope = "" if site.function else site.scope.rstrip("/")
        found = self._read_stack(site.stack, scope, site.is_backward)
        if found.is_library and site.function:
            found = self._find_function(site.function) or found
        outputs = (site.output,) if site.output else ()
        return found._replace(called=site.called, outputs=outputs)

    def _find_in_pipeline(self, event: AllocationEvent) -> Origin:
        """Return the line of the stage that holds it; else of a node of a pipeline's functions, or
        of the stage that makes it."""
        nodes = self._list_pipeline_nodes(event.node)
        pair = self._recording.pipelines.find_holder(event.stages, nodes, event.bytes)
        if pair is not None:
            holder, maker = pair
            held = self._read_stack(holder.stack)
            return held._replace(called=f"{PIPELINE} {holder.kind}", outputs=maker.outputs)
        found = self.find_node(event.node, _PIPELINE_GRAPH) if event.node else None
        if found is not None:
            return found._replace(called=PIPELINE)
        stack = self._recording.pipelines.find_line(event.stages)
        if stack is None:
            why = "a data pipeline allocated it, and which one TensorFlow doesn't say"
            return Origin(why=why, called=PIPELINE)
        return self._read_stack(stack)._replace(called=PIPELINE)

    def find_compiled(self, call: Origin, size: int) -> Origin:
        """Return the call of the function of which XLA allocated a block: it may be within the one
        that Python called."""
        plans = self._recording.plans
        if plans is None or plans.has_block(call.called, size):
            return call
        graph = names.parse_function(call.called) or call.called
        for each in sorted(self._recording.compiled_calls, key=lambda each: each.graph != graph):
            if plans.has_block(each.function, size):
                at = self.find_node(each.node, each.graph) or call
                return at._replace(called=each.function, node="", op="", outputs=())
        return call

    def find_path(self, node: str, function: str) -> str:
        """Return a node with its scopes, those of a gradient where it is one by who made it."""
        found, named = self.find_node(node, function), names.to_path(node)
        scope, _, leaf = named.rpartition("/")
        if found is None or (not found.node and not found.is_backward):
            return named
        scope = names.to_gradient(scope) if found.is_backward else names.to_forward(scope)
        return f"{scope}/{leaf}" if scope else leaf

    def _find_function(self, function: str) -> Origin | None:
        """Return where a function makes its first node: no line of the user's may call it, as a
        step that the runner calls."""
        graph = names.parse_function(function) or function
        made = (graphs[graph].stack for graphs in self._recording.nodes.values() if graph in graphs)
        found = map(self._read_stack, made)
        return next((origin for origin in found if not origin.is_library), None)

    def find_node(self, op: str, function: str) -> Origin | None:
        """Return the origin of a graph's node, by any name that it may have been made with: its
        own, that of what it differentiates, or that of what it is a part of."""
        graph = names.parse_function(function) or function
        spelled = ((name, self._find_named(name, graph)) for name in list_spellings(op))
        named, own = next(((name, node) for name, node in spelled if node is not None), ("", None))
        if own is not None and own.is_known:
            found = self._read_stack(own.stack, "", own.is_backward)
        else:
            enclosing = ((name, False) for name in list_enclosing(op))
            for name, is_gradient in itertools.chain(list_original_names(op), enclosing):
                if (node := self._find_named(name, graph)) is not None:
                    found = self._read_stack(node.stack, "", is_gradient or node.is_backward)
                    break
            else:
                return None
        return found._replace(node=named, op=own.type, outputs=own.outputs) if own else found

    def _find_named(self, name: str, graph: str) -> Node | None:
        """Return the node in this graph or, of a function that was put into it, in the latest that
        has it."""
        graphs = self._recording.nodes.get(name)
        if not graphs:
            return None
        if graph == _PIPELINE_GRAPH:
            graph = next((each for each in reversed(graphs) if each.startswith(graph)), "")
        return graphs.get(graph) or next(reversed(graphs.values()))

    def _read_stack(self, stack: int, scope: str = "", is_backward: bool = False) -> Origin:
        stacks = self._recording.stacks
        assert stacks is not None
        frames = stacks.list_frames(stack)
        why = None if frames else "no line of Python's was on the stack but the runner's own"
        return Origin(frames, scope, is_backward, stacks.is_library(stack), why)
