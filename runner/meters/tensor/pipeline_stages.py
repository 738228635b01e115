"""Find which line made each stage of a data pipeline: tf.data prepares what will be asked for on
threads of its own, where no line of the user's is on the stack. Core: standard library only.

TensorFlow names the stage that allocates by its path from the end of the pipeline on. It may have
put stages in, fused some or made them parallel, so stages are compared by what they do:

    Iterator::Root::Prefetch::BatchV2::ParallelMapV2     the path of what allocates
                              Batch    Map    TensorSlice   what Python made, last one first
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator
from typing import Any

Stage = tuple[str, int]
"""The stage's kind, and the number of the stack that made it."""


class PipelineStages:
    """Knows the pipelines that something iterates over, by the lines of their stages."""

    def __init__(self) -> None:
        self._made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._begun: dict[tuple[Stage, ...], int] = {}
        """The stages, the last one first, and the stack that iterates; the latest at the end."""

    def note_stage(self, dataset: Any, stack: int) -> None:
        self._made.setdefault(dataset, stack)

    def note_iteration(self, dataset: Any, stack: int) -> None:
        stages = tuple(self._list_stages(dataset))
        self._begun.pop(stages, None)
        self._begun[stages] = stack

    def _list_stages(self, dataset: Any) -> Iterator[Stage]:
        if dataset in self._made:
            name = type(dataset).__name__.removeprefix("_").removesuffix("Dataset")
            yield _strip(name), self._made[dataset]
        for each in dataset._inputs():
            yield from self._list_stages(each)

    def find_line(self, path: str) -> int | None:
        """Return the stack that made this stage or, where TensorFlow put it in, the one that asks
        for it; else the one that iterates. None where several pipelines fit equally badly."""
        names = [_strip(each) for each in _split(path)]
        found = [(_match(names, stages), stack) for stages, stack in self._begun.items()]
        most = max((len(its) for its, _ in found), default=0)
        fitting = [its[-1] if its else stack for its, stack in found if len(its) == most]
        if not fitting or (not most and len(set(fitting)) > 1):
            return None
        return fitting[-1]


def _match(names: list[str], stages: tuple[Stage, ...]) -> list[int]:
    """Return the stacks of the stages that are on a path, in its order."""
    found = []
    for name in names:
        fits = (at for at, (kind, _) in enumerate(stages) if name.endswith(kind))
        if (at := next(fits, None)) is not None:  # `MapAndBatch` is two
            found.append(stages[at][1])
            stages = stages[at + 1 :]
    return found


def get_last_stage(path: str) -> str:
    """Return `BatchV2` of a path that ends in it."""
    return _split(path)[-1]


def _split(path: str) -> list[str]:
    return [re.sub(r"\[\d+\]", "", each) for each in path.split("::")[1:]]


def _strip(name: str) -> str:
    """Return `Map` of `ParallelMapV2`, `Repeat` of `ForeverRepeat`."""
    plain = re.sub(r"(V\d+|Impl)+$", "", name)
    return re.sub(r"^(Parallel|Forever|Finite|Memory|File|From)+(?=[A-Z])", "", plain)
