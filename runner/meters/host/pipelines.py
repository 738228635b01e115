"""Read what the buffers of a data pipeline hold, as tf.data's own model of it says. Child side.

tf.data counts the elements and the bytes that each stage of a pipeline has buffered, and knows the
size that AUTOTUNE has chosen for one. Asked twice, with steps in between, a buffer that is full is
told from one that goes on filling. Where it will be full the datasets say, as Python has them.
"""

from __future__ import annotations

import gc
import re
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from runner.facts import PipelineBuffer
from runner.meters.tensor.names import count_bytes
from runner.meters.tensor.pipeline_stages import list_outputs

_SIZE = "buffer_size"
"""tf.data's name for the number of elements that a buffer may hold."""
_ITERATOR = "OwnedIterator"


_KEEPERS = {
    "Shuffle": "_ShuffleDataset",
    "MemoryCacheImpl": "CacheDataset",
    "Prefetch": "_PrefetchDataset",
}
"""How the names of stages that keep elements begin in tf.data's model, and the class that Python
makes of each."""


class _Room(NamedTuple):
    """What a stage has room for."""

    capacity: int | None = None
    element_bytes: int | None = None


_StageKey = tuple[int, str, int]
"""The iterator's id, the stage's name, and the how many-th of that name it is."""


class PipelineMeter:
    """Those that something iterates over; `look` between two steps, `list_buffers` at the end."""

    def __init__(self) -> None:
        self._looks: list[dict[_StageKey, Any]] = []
        self._rooms: dict[_StageKey, _Room] = {}

    def look(self) -> None:
        """Note each stage as tf.data's model has it, a pipeline's from its source on: tf.data
        numbers them from the end."""
        from tensorflow.python.data.experimental.ops.iterator_model_ops import get_model_proto

        found: dict[_StageKey, Any] = {}
        for iterator in [each for each in gc.get_objects() if type(each).__name__ == _ITERATOR]:
            try:
                nodes = get_model_proto(iterator).nodes
                rooms = _list_rooms(iterator._dataset)
            except Exception:  # a pipeline without a model (autotune off) has none to ask
                continue
            seen: Counter[str] = Counter()
            for node in sorted(nodes.values(), key=lambda each: -each.id):
                key = id(iterator), node.name, seen[node.name]
                found[key] = node
                kind = next((_KEEPERS[name] for name in _KEEPERS if node.name.startswith(name)), "")
                if rooms[kind]:
                    self._rooms[key] = rooms[kind].pop()
                seen[node.name] += 1
        self._looks.append(found)

    def list_buffers(self) -> tuple[PipelineBuffer, ...]:
        """Return the buffers that there were at the last look: how much each held at all of them. A
        stage that was not there yet held nothing: a cache is another one once it is read from."""
        buffers: list[PipelineBuffer] = []
        if len(self._looks) < 2:
            return ()
        for key, last in self._looks[-1].items():
            size = next((each for each in last.parameters if each.name == _SIZE), None)
            is_chosen = bool(size and size.tunable)
            if not (last.buffered_bytes or is_chosen):
                continue
            nodes = [look.get(key) for look in self._looks]
            plain = re.sub(r"(V\d+|Impl)+$", "", last.name)  # `MemoryCache` of `MemoryCacheImpl`
            buffers.append(
                PipelineBuffer(
                    stage=re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain).lower(),
                    elements=tuple(int(node.buffered_elements) if node else 0 for node in nodes),
                    bytes=tuple(int(node.buffered_bytes) if node else 0 for node in nodes),
                    buffer=int(size.value) if size else None,
                    chosen_by_autotune=is_chosen,
                    **self._rooms.get(key, _Room())._asdict(),
                )
            )
        return tuple(buffers)


def _list_rooms(dataset: Any) -> dict[str, list[_Room]]:
    """Return what each stage that keeps elements has room for, by its class; the source's stage
    last. A cache has room for all, where it is known how many there are."""
    rooms: dict[str, list[_Room]] = defaultdict(list)
    level = [dataset]
    while level:
        for stage in level:
            if (name := type(stage).__name__) in _KEEPERS.values():
                count = int(getattr(stage, "_buffer_size", None) or stage.cardinality())
                sizes = [count_bytes(*output) for output in list_outputs(stage)]
                known = [size for size in sizes if size is not None]
                size = sum(known) if len(known) == len(sizes) else None
                # Below 0: AUTOTUNE chooses the number, or tf.data does not know it, or no end.
                rooms[name].append(_Room(count if count >= 0 else None, size))
        level = [source for stage in level for source in stage._inputs()]
    return rooms
