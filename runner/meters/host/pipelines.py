"""Read what the buffers of a data pipeline hold, as tf.data's own model of it says. Child side.

tf.data counts the elements and the bytes that each stage of a pipeline has buffered, and knows the
size that AUTOTUNE has chosen for one. Asked twice, with steps in between, a buffer that is full is
told from one that goes on filling.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from typing import Any

from runner.facts import PipelineBuffer

_SIZE = "buffer_size"
"""tf.data's name for the number of elements that a buffer may hold."""
_ITERATOR = "OwnedIterator"


_StageKey = tuple[int, str, int]
"""The iterator's id, the stage's name, and the how many-th of that name it is."""


class PipelineMeter:
    """Those that something iterates over; `look` between two steps, `list_buffers` at the end."""

    def __init__(self) -> None:
        self._looks: list[dict[_StageKey, Any]] = []

    def look(self) -> None:
        """Note each stage as tf.data's model has it, a pipeline's from its source on: tf.data
        numbers them from the end."""
        from tensorflow.python.data.experimental.ops.iterator_model_ops import get_model_proto

        found: dict[_StageKey, Any] = {}
        for iterator in [each for each in gc.get_objects() if type(each).__name__ == _ITERATOR]:
            try:
                nodes = get_model_proto(iterator).nodes
            except Exception:  # a pipeline without a model (autotune off) has none to ask
                continue
            seen: Counter[str] = Counter()
            for node in sorted(nodes.values(), key=lambda each: -each.id):
                found[id(iterator), node.name, seen[node.name]] = node
                seen[node.name] += 1
        self._looks.append(found)

    def list_buffers(self) -> tuple[PipelineBuffer, ...]:
        """Return the buffers that there were at the last look: how much each held at all of them. A
        stage that was not there yet held nothing: a cache is another one once it is read from."""
        buffers = []
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
                )
            )
        return tuple(buffers)
