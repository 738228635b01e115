"""What the buffers of a data pipeline hold, as tf.data's own model of it says. Child side.

tf.data counts the elements and the bytes that each stage of a pipeline has buffered, and knows the
size that AUTOTUNE has chosen for one. Asked twice, with steps in between, a buffer that is full is
told from one that goes on filling.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from typing import Any

_SIZE = "buffer_size"
"""What tf.data calls the number of elements that a buffer may hold."""


class Pipelines:
    """Those that something iterates over; `look` between two steps, `to_json` at the end."""

    def __init__(self) -> None:
        self._looks: list[dict[_Stage, dict[str, Any]]] = []

    def look(self) -> None:
        self._looks.append(_buffers())

    def to_json(self) -> list[dict[str, Any]]:
        """The buffers that there were at the last look: how much each held at all of them. A stage
        that was not there yet held nothing: a cache is another one once it is read from."""
        nothing = {"elements": 0, "bytes": 0}
        return [
            {
                **buffer,
                "elements": [look.get(stage, nothing)["elements"] for look in self._looks],
                "bytes": [look.get(stage, nothing)["bytes"] for look in self._looks],
            }
            for stage, buffer in self._looks[-1].items()
            if buffer["bytes"] or buffer["chosen_by_autotune"]
        ]


_Stage = tuple[int, str, int]
"""Of which iterator, its name, and the how many-th of that name."""


def _buffers() -> dict[_Stage, dict[str, Any]]:
    """A pipeline's from its source on: tf.data numbers the stages from the end."""
    from tensorflow.python.data.experimental.ops.iterator_model_ops import get_model_proto

    found: dict[_Stage, dict[str, Any]] = {}
    for iterator in [each for each in gc.get_objects() if type(each).__name__ == "OwnedIterator"]:
        try:
            nodes = get_model_proto(iterator).nodes
        except Exception:  # a pipeline without a model (autotune off) has none to ask
            continue
        seen: Counter[str] = Counter()
        for node in sorted(nodes.values(), key=lambda each: -each.id):
            size = next((each for each in node.parameters if each.name == _SIZE), None)
            found[id(iterator), node.name, seen[node.name]] = {
                "stage": _words(node.name),
                "elements": node.buffered_elements,
                "bytes": node.buffered_bytes,
                "buffer": int(size.value) if size else None,
                "chosen_by_autotune": bool(size and size.tunable),
            }
            seen[node.name] += 1
    return found


def _words(name: str) -> str:
    """`memory cache` of `MemoryCacheImpl`."""
    plain = re.sub(r"(V\d+|Impl)+$", "", name)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain).lower()
