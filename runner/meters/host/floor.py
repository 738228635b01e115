"""The floor under the host's meter: what is free and resident already is given back or used up, so
that the next byte that is taken is a byte that shows.

Loading TensorFlow leaves megabytes that are free on malloc's heap and in Python's own arenas, but
resident, and so does building a model: a leak of 8 kB a step would disappear in them for 240 steps,
one of 48 bytes in Python for 10,000. Whole pages go back to the kernel. What is smaller is taken,
a block size at a time, until blocks come from pages that weren't resident; and kept, for good.

It has to be done in the trial, because a child frees memory while it sets its device. The warm
server does it first: what it had left would be used up, page by page, by every child anew.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, NamedTuple

from runner.meters.host import malloc

_BATCH_BYTES = 16_384
"""Taken between two readings of what is resident."""

_ARENA_BYTES = 1 << 20
"""Python's arenas, which have pools of 16 kB."""

_FRESH = 0.7
"""The share of a batch that was not resident before: then the leftovers are used up."""

_MOST_BYTES = 16_000_000
"""Taken in all: a bound, should the kernel not say when a page is new. Whole arenas of Python's may
be free, of a megabyte each."""

_PYTHONS = range(512, 0, -16)
"""Block sizes of Python's arenas; what is larger, Python takes from malloc."""

_MALLOCS = (4080, 3056, 2032, 1520, *range(1016, 8, -16))
"""Below 1 kB each of glibc's bins, because what fits exactly is taken first."""

_of_python = ctypes.PyDLL(None).PyObject_Malloc
"""A bare block and no object: objects, and a list that keeps them, would set Python's collector
off, which then frees garbage that is the trial's to measure."""

_of_python.restype = ctypes.c_void_p


_latest: deque[Any] = deque(maxlen=1)
"""Made at once and not where memory may have run out: Python 3.11 then raises a `SystemError`."""


class FloorChange(NamedTuple):
    """The bytes that lowering took, and by how much that has moved what is resident: the rest was
    there, and free."""

    taken_bytes: int
    moved_bytes: int


def lower(resident: Callable[[], int]) -> FloorChange:
    """Lower it, in some 2 ms: take blocks of each size, for good, until a batch of them was not
    resident before."""
    malloc.trim()
    trimmed = reached = resident()
    taken = 0
    for take, sizes in ((_of_python, _PYTHONS), (malloc.take, _MALLOCS)):
        for size in sizes:
            # Python fills its fullest arena first, so behind one with new pages there may be one
            # that is empty and resident: the largest size, of which any pool will do, goes through.
            enough = _ARENA_BYTES if size == max(_PYTHONS) else 1
            count = max(1, _BATCH_BYTES // size)
            fresh = 0  # bytes in a row that were not resident
            while taken < _MOST_BYTES and fresh < enough:
                blocks: Iterable[Any] = filter(None, map(take, repeat(size, count)))
                if malloc.is_jemalloc:  # nobody has written to their pages: they aren't resident
                    blocks = map(ctypes.memset, blocks, repeat(0), repeat(1))
                _latest.clear()
                _latest.extend(blocks)  # all of them in C: there are thousands
                if not _latest:
                    break  # nothing is left below a limit
                taken += count * size
                before, reached = reached, resident()
                is_fresh = reached - before >= _FRESH * count * size
                fresh = fresh + count * size if is_fresh else 0
    return FloorChange(taken, reached - trimmed)
