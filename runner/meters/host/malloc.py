"""Speak to malloc from Python: take blocks, give back what is free, and read its books.

The books (`mallinfo2`) say how much of malloc's memory is in use and how much is free but not given
back. Only glibc's has some. Reading them walks through its lists, so in a long trial they are read
now and then: the longer it is, the less often.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from typing import Any

from runner.facts import MallocBooks

_libc = ctypes.CDLL(None)

take = _libc.malloc
take.restype = ctypes.c_void_p  # to check the sizes as well takes longer than malloc does
_libc.free.argtypes = [ctypes.c_void_p]

is_jemalloc = hasattr(_libc, "mallctl")

_EVERY_ONE, _THEN_EVERY = 32, 8
"""Each of the first 32 steps is read, later every eighth."""

_MOST_ROWS = _EVERY_ONE + 128
"""Once so many are kept, every other one of the later ones is dropped."""


def trim() -> None:
    """Give whole pages back that malloc has free, whichever of three it is."""
    if is_jemalloc:  # 4096 stands for all of its arenas
        _libc.mallctl(b"arena.4096.purge", None, None, None, ctypes.c_size_t(0))
    elif hasattr(_libc, "MallocExtension_ReleaseFreeMemory"):  # tcmalloc
        _libc.MallocExtension_ReleaseFreeMemory()
    elif hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


class MallocInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )

    @property
    def heap_bytes(self) -> int:
        """In use, blocks with a mapping of their own left out."""
        return int(self.uordblks)

    @property
    def in_use_bytes(self) -> int:
        return int(self.uordblks + self.hblkhd)

    @property
    def free_bytes(self) -> int:
        return int(self.fordblks)


def _find_reader() -> Callable[[], MallocInfo] | None:
    """Return what reads glibc's books, which are there since 2021. Where another malloc was loaded
    before it, they stay as they are whatever is taken."""
    try:
        read: Any = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):
        return None
    read.restype = MallocInfo
    before = read()
    block = take(50_000)
    after = read()
    _libc.free(block)
    return read if after.in_use_bytes != before.in_use_bytes else None


info = _find_reader()
"""Found out once, in the server; None: there are no books."""


class MallocLog:
    """At some steps; empty where there are no books. Of its full length from the first: that it
    grew would be seen as a leak."""

    def __init__(self) -> None:
        self._rows = array("q", bytes(8 * 3 * _MOST_ROWS))
        self._used = 0
        self._every = _THEN_EVERY
        self._collected = 0
        self._before_collection: MallocInfo | None = None
        self._read = info

    def note(self, step: int) -> None:
        if self._read is None or (step >= _EVERY_ONE and step % self._every):
            return
        if self._used == len(self._rows):
            self._thin_out()
            if step % self._every:
                return
        found = self._read()
        for figure in (step, found.in_use_bytes, found.free_bytes):
            self._rows[self._used] = figure
            self._used += 1

    def _thin_out(self) -> None:
        """Drop every other one of the later rows, and read half as often from now on."""
        self._every *= 2
        self._used = 3 * _EVERY_ONE
        for row in range(self._used, len(self._rows), 3):
            if self._rows[row] % self._every == 0:
                self._rows[self._used : self._used + 3] = self._rows[row : row + 3]
                self._used += 3

    def begin_collection(self) -> None:
        self._before_collection = self._read and self._read()

    def end_collection(self) -> None:
        """Note what Python's collector freed, whether or not malloc has kept it."""
        if self._read is not None and self._before_collection is not None:
            freed = self._before_collection.in_use_bytes - self._read().in_use_bytes
            self._collected = max(0, freed)

    def to_facts(self) -> MallocBooks | None:
        """Return what was read; None where there are no books."""
        if not self._used:
            return None
        steps, in_use, free = (tuple(self._rows[column : self._used : 3]) for column in range(3))
        return MallocBooks(steps, in_use, free, self._collected)
