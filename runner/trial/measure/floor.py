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

from runner.trial.measure import malloc

_BATCH_BYTES = 16_384
"""Taken between two readings of what is resident."""

_FRESH = 0.7
"""Of a batch's bytes that were not resident before: then the leftovers are used up."""

_MOST_BATCHES = 48
"""Of one size: a bound of 0.8 MB, should the kernel not say when a page is new."""

_PYTHONS = range(512, 0, -16)
"""Block sizes of Python's arenas; what is larger, Python takes from malloc."""

_MALLOCS = (4080, 3056, 2032, 1520, *range(1016, 8, -16))
"""Below 1 kB each of glibc's bins, because what fits exactly is taken first."""

_of_python = ctypes.PyDLL(None).PyObject_Malloc
"""A bare block and no object: objects, and a list that keeps them, would set Python's collector
off, which then frees garbage that is the trial's to measure."""

_of_python.restype = ctypes.c_void_p


class Lowered(NamedTuple):
    """What lowering it took, and by how much that itself has moved what is resident: the rest was
    there, and free."""

    taken_bytes: int
    moved_bytes: int


def lower(resident: Callable[[], int]) -> Lowered:
    """Lower it, in some 2 ms."""
    malloc.trim()
    trimmed = resident()
    taken, reached = 0, trimmed
    for take, sizes in ((_of_python, _PYTHONS), (malloc.take, _MALLOCS)):
        for size in sizes:
            more, reached = _use_up(resident, reached, size, take)
            taken += more
    return Lowered(taken, reached - trimmed)


def _use_up(
    resident: Callable[[], int], reached: int, size: int, take: Callable[[int], Any]
) -> tuple[int, int]:
    """Bytes that were taken in blocks of one size, for good; and what is `resident` then, which
    was `reached` before."""
    count = max(1, _BATCH_BYTES // size)
    taken = 0
    for _ in range(_MOST_BATCHES):
        blocks: Iterable[Any] = filter(None, map(take, repeat(size, count)))
        if malloc.is_jemalloc:  # nobody has written to their pages, so these are not resident
            blocks = map(ctypes.memset, blocks, repeat(0), repeat(1))
        if not deque(blocks, maxlen=1):  # at once: there are thousands
            break  # nothing is left below a limit
        taken += count * size
        before, reached = reached, resident()
        if reached - before >= _FRESH * count * size:
            break
    return taken, reached
