"""What is done between two steps, outside of every span: a remedy, and a look at malloc's books.

A remedy (`measure.between_steps`) is what a person would call in their own loop. The books say how
much of malloc's memory is in use and how much is free but not given back. Reading them walks
through malloc's lists, so in a long trial they are read now and then.
"""

from __future__ import annotations

import ctypes
import gc
from array import array
from collections.abc import Callable
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


class Books:
    """Malloc's, at some steps; empty where it is not glibc's, which has no such books. Of their
    full length from the first, where it is known how many steps come: that they grew would be seen
    as a leak."""

    def __init__(self, most_steps: int = 0) -> None:
        self._rows = array("q", bytes(8 * 3 * (_EVERY_ONE + most_steps // _THEN_EVERY)))
        self._used = 0
        self._collected = 0
        self._before_collection: _MallInfo | None = None
        self._read = _mallinfo

    def note(self, step: int) -> None:
        if self._read is None or (step >= _EVERY_ONE and step % _THEN_EVERY):
            return
        info = self._read()
        if self._used == len(self._rows):
            self._rows.extend((0, 0, 0))
        for figure in (step, _in_use(info), info.fordblks):
            self._rows[self._used] = figure
            self._used += 1

    def begin_collection(self) -> None:
        self._before_collection = self._read and self._read()

    def end_collection(self) -> None:
        """What Python's collector freed, whether or not malloc has kept it."""
        if self._read is not None and self._before_collection is not None:
            self._collected = max(0, _in_use(self._before_collection) - _in_use(self._read()))

    def to_json(self) -> dict[str, Any] | None:
        if not self._used:
            return None
        columns = (self._rows[column : self._used : 3].tolist() for column in range(3))
        named = dict(zip(("steps", "in_use_bytes", "free_bytes"), columns, strict=True))
        return {**named, "collected_bytes": self._collected}


def _in_use(info: _MallInfo) -> int:
    return int(info.uordblks + info.hblkhd)


def _is_glibcs() -> bool:
    """Whether malloc is glibc's own: another one that was loaded before it answers first."""
    with open("/proc/self/maps") as maps:  # noqa: PTH123
        return not any(name in line for line in maps for name in ("jemalloc", "tcmalloc"))


_mallinfo = getattr(_libc, "mallinfo2", None) if _is_glibcs() else None  # once, in the server
if _mallinfo is not None:
    _mallinfo.restype = _MallInfo


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
