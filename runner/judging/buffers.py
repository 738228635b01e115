"""The buffers of data pipelines: elements times bytes, full or filling, and what AUTOTUNE chose.

Core: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runner.metrics import readable_bytes
from runner.records import Record


@dataclass(frozen=True)
class Buffer:
    """What one stage of a tf.data pipeline held, at two moments with many steps in between."""

    stage: str
    elements: tuple[int, int]
    bytes: int
    size: int | None
    chosen_by_autotune: bool

    def __str__(self) -> str:
        count = self.elements[1]
        each = f" of {readable_bytes(self.bytes / count)}" if count else ""
        size = "" if self.size is None else f", AUTOTUNE chose {self.size}"
        if self.size is not None and not self.chosen_by_autotune:
            size = f", {self.size} at most"
        rises = ", and rises" if self.is_filling else ""
        elements = "element" if count == 1 else "elements"
        return f"{self.stage}, {count:,} {elements}{each}{size}{rises}"

    @property
    def is_filling(self) -> bool:
        """Stages run ahead of each other, and so hold an element or two more or fewer."""
        before, after = self.elements
        return after > max(1.1 * before, before + 3)

    def is_most_of(self, bytes_: float) -> bool:
        return not self.is_filling and abs(self.bytes - bytes_) < 0.5 * bytes_


def held_by(record: Record) -> list[Buffer]:
    """Those that a host trial found, a pipeline's from its source on."""
    held: dict[str, Any] = next(
        (each.facts["held"] for each in record.trials if "held" in each.facts), {}
    )
    return [
        Buffer(
            each["stage"],
            tuple(each["elements"]),
            each["bytes"][-1],
            each["buffer"],
            each["chosen_by_autotune"],
        )
        for each in held.get("pipelines", ())
    ]
