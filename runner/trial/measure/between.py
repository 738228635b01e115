"""What is done between two steps, outside of every span: a remedy, and a look at malloc's books.

A remedy (`measure.between_steps`) is what a person would call in their own loop. The books say how
much of malloc's memory is in use and how much is free but not given back. Reading them walks
through malloc's lists, so in a long trial they are read now and then.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_libc = ctypes.CDLL(None)

_EVERY_ONE, _THEN_EVERY = 32, 8
"""Of the first steps each is read, later every eighth."""


class _MallInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )


@dataclass
class Books:
    """Malloc's, at some steps; empty where it is not glibc's, which has no such books."""

    steps: list[int] = field(default_factory=list)
    in_use_bytes: list[int] = field(default_factory=list)
    free_bytes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._read = getattr(_libc, "mallinfo2", None) if _is_glibcs() else None
        if self._read is not None:
            self._read.restype = _MallInfo

    def note(self, step: int) -> None:
        if self._read is None or (step >= _EVERY_ONE and step % _THEN_EVERY):
            return
        info = self._read()
        self.steps.append(step)
        self.in_use_bytes.append(info.uordblks + info.hblkhd)
        self.free_bytes.append(info.fordblks)

    def to_json(self) -> dict[str, Any] | None:
        if not self.steps:
            return None
        return {
            "steps": self.steps,
            "in_use_bytes": self.in_use_bytes,
            "free_bytes": self.free_bytes,
        }


def _is_glibcs() -> bool:
    """Whether malloc is glibc's own: another one that was loaded before it answers first."""
    with open("/proc/self/maps") as maps:  # noqa: PTH123
        return not any(name in line for line in maps for name in ("jemalloc", "tcmalloc"))


def remedy(name: str) -> Callable[[], object]:
    known: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "gc_collect": gc.collect,
        "clear_session": _clear_session,
        "malloc_trim": lambda: _libc.malloc_trim(0),
    }
    return known[name]


def _clear_session() -> None:
    import keras

    keras.backend.clear_session()
