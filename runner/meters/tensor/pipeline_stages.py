"""Find which line made each stage of a data pipeline: tf.data prepares what will be asked for on
threads of its own, where no line of the user's is on the stack. Core: standard library only.

What a stage makes waits in a later one, the first that holds elements: there it has its line.

TensorFlow names the stage that allocates by its path from the end of the pipeline on. It may have
put stages in, fused some or made them parallel, so stages are compared by what they do:

    Iterator::Root::Prefetch::BatchV2::ParallelMapV2     the path of what allocates
                              Batch    Map    TensorSlice   what Python made, last one first

Of a function that is mapped TensorFlow names the node alone: its stage is known by its nodes, and
what it returns by its size.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Set
from contextlib import suppress
from typing import Any, NamedTuple

from runner.meters.tensor.names import count_bytes

_HOLDERS = ("Cache", "Shuffle", "Prefetch", "Batch")
"""The ends of the kinds of stages that hold elements of the one before: until their own is drawn,
asked for or full, a cache for good."""


Output = tuple[tuple[int, ...] | None, int]
"""A tensor's shape, None where it is not known before it is made, and its dtype's number."""


class Stage(NamedTuple):
    """A stage of a pipeline, as Python made it."""

    kind: str
    stack: int
    nodes: Set[str] = frozenset()
    """The nodes of its functions."""
    outputs: tuple[Output, ...] = ()
    """The tensors of an element."""

    def can_return(self, size: int) -> bool:
        """Return whether a tensor of an element may have so many bytes."""
        return not {size, None}.isdisjoint(count_bytes(*each) for each in self.outputs)


class PipelineStages:
    """Knows the pipelines that something iterates over, by the lines of their stages."""

    def __init__(self) -> None:
        self._made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._stages: weakref.WeakKeyDictionary[Any, Stage] = weakref.WeakKeyDictionary()
        self._begun: dict[tuple[Stage, ...], int] = {}
        """The stages, the last one first, and the stack that iterates; the latest at the end."""

    @property
    def are_used(self) -> bool:
        """Return True if something has iterated over a pipeline."""
        return bool(self._begun)

    def note_stage(self, dataset: Any, stack: int) -> None:
        self._made.setdefault(dataset, stack)

    def note_iteration(self, dataset: Any, stack: int) -> None:
        stages = tuple(self._list_stages(dataset))
        self._begun.pop(stages, None)
        self._begun[stages] = stack

    def _list_stages(self, dataset: Any) -> Iterator[Stage]:
        if dataset in self._made:
            if dataset not in self._stages:
                name = type(dataset).__name__.removeprefix("_").removesuffix("Dataset")
                stage = Stage(_strip(name), self._made[dataset], *_read_functions(dataset))
                self._stages[dataset] = stage
            yield self._stages[dataset]
        for each in dataset._inputs():
            yield from self._list_stages(each)

    def find_line(self, path: str) -> int | None:
        """Return the stack that made this stage or, where TensorFlow put it in, the one that asks
        for it; else the one that iterates. None where several pipelines fit equally badly."""
        names = [_strip(each) for each in _split(path)]
        found = [
            ([stages[at].stack for at in _match(names, stages)], stack)
            for stages, stack in self._begun.items()
        ]
        most = max((len(its) for its, _ in found), default=0)
        fitting = [its[-1] if its else stack for its, stack in found if len(its) == most]
        if not fitting or (not most and len(set(fitting)) > 1):
            return None
        return fitting[-1]

    def find_holder(self, path: str, nodes: Set[str], size: int) -> tuple[Stage, Stage] | None:
        """Return the stage that holds what the one at this path has made, or that has one of these
        nodes in a function, and the one that has; None where no stage is known to."""
        names = [_strip(each) for each in _split(path)]
        most, pair = 0, None
        for stages in self._begun:
            places = _find_function(stages, nodes, size) if nodes else _match(names, stages)
            if places and len(places) >= most:
                most = len(places)
                later = reversed(stages[: places[-1]])
                holder = next((stage for stage in later if stage.kind.endswith(_HOLDERS)), None)
                pair = holder and (holder, stages[places[-1]])
        return pair


def _read_functions(dataset: Any) -> tuple[Set[str], tuple[Output, ...]]:
    """Return the nodes of a dataset's functions, and the tensors of its elements."""
    with suppress(AttributeError, TypeError, ValueError):  # the user's own class may have none
        graphs = (each.function.graph for each in dataset._functions())
        nodes = frozenset(name for graph in graphs for name in _list_nodes(graph))
        return nodes, list_outputs(dataset)
    return frozenset(), ()


def list_outputs(dataset: Any) -> tuple[Output, ...]:
    """Return the tensors of an element of a dataset."""
    outputs = zip(dataset._flat_shapes, dataset._flat_types, strict=True)
    return tuple(
        (tuple(shape.as_list()) if shape.is_fully_defined() else None, dtype.as_datatype_enum)
        for shape, dtype in outputs
    )


def _list_nodes(graph: Any) -> Iterator[str]:
    """Yield the nodes of a function and of those that it calls, as `from_generator`'s does."""
    yield from (op.name for op in graph.get_operations())
    for function in graph._functions.values():
        yield from _list_nodes(function.graph)


def _find_function(stages: tuple[Stage, ...], nodes: Set[str], size: int) -> list[int]:
    """Return the place of the stage that has one of these nodes in a function, and returns a tensor
    of this size."""
    for at, stage in enumerate(stages):
        if not stage.nodes.isdisjoint(nodes) and stage.can_return(size):
            return [at]
    return []


def _match(names: list[str], stages: tuple[Stage, ...]) -> list[int]:
    """Return the places of the stages that are on a path, in its order."""
    places, start = [], 0
    for name in names:
        for at in range(start, len(stages)):
            if name.endswith(stages[at].kind):  # `MapAndBatch` is two
                places.append(at)
                start = at + 1
                break
    return places


def get_last_stage(path: str) -> str:
    """Return `BatchV2` of a path that ends in it."""
    return _split(path)[-1]


def _split(path: str) -> list[str]:
    return [re.sub(r"\[\d+\]", "", each) for each in path.split("::")[1:]]


def _strip(name: str) -> str:
    """Return `Map` of `ParallelMapV2`, `Repeat` of `ForeverRepeat`."""
    plain = re.sub(r"(V\d+|Impl)+$", "", name)
    return re.sub(r"^(Parallel|Forever|Finite|Memory|File|From)+(?=[A-Z])", "", plain)
