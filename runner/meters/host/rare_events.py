"""Count rare events while steps are traced: a step that leaves far more in use than others do."""

from __future__ import annotations

import statistics
import sys
from itertools import pairwise

from runner.meters.host import malloc

ENOUGH_EVENTS = 3
"""So many tell that something recurs, and how often."""

_WARMUP_STEPS = 2
"""What the first traced steps leave more than others is not counted: memray's own tables grow."""
_LEAST_BYTES, _MUCH = 4096, 4.0
"""A rise by less is none, nor is one by less than so many times the usual one."""
_BLOCK_BYTES = 48
"""Of a small object of Python's: malloc's books leave them out, and Python counts them."""


class RareEvents:
    """Reads after each step what is in use; a few microseconds."""

    def __init__(self) -> None:
        self._in_use: list[int] = []

    def note(self) -> None:
        of_malloc = malloc.info().in_use_bytes if malloc.info else 0
        self._in_use.append(of_malloc + _BLOCK_BYTES * sys.getallocatedblocks())

    def may_recur(self) -> bool:
        """Return True if something rare was seen, but not often enough to tell how rare it is."""
        return 0 < self._count() < ENOUGH_EVENTS

    def _count(self) -> int:
        """Return the number of steps that left far more than others, which is still there."""
        late = self._in_use[_WARMUP_STEPS:]
        rises = [after - before for before, after in pairwise(late)]
        if not rises:
            return 0
        least = max(_LEAST_BYTES, _MUCH * statistics.median(map(abs, rises)))
        return sum(
            rise >= least and min(late[place + 1 :]) >= late[place] + least / 2
            for place, rise in enumerate(rises)
        )
