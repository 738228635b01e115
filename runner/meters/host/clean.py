"""Readings of what is resident without garbage: before some of the steps Python's collector runs,
and malloc gives back what it has free.

Not in a fork, which would leave the program alone: TensorFlow 2.21 ends there by SIGSEGV when the
garbage holds a `tf.function` (in `TFE_ContextRemoveFunction`). So only where neither time nor a
peak of the program's own is read any more. Child side.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from runner.facts import CleanReadings

_MOST_READINGS = 32
"""Once so many are kept, every other one is dropped, and half as often is read from then on."""


class CleanLog:
    """At some steps. Of its full length from the first: that it grew would be seen as a leak."""

    def __init__(self, trim: Callable[[], int], collect: Callable[[], int]) -> None:
        """Take what gives back free memory, and what collects garbage first; both return what is
        then resident."""
        self._trim, self._collect = trim, collect
        self._columns = tuple(array("q", bytes(8 * _MOST_READINGS)) for _ in range(3))
        self._used = self._next = self._every = 0

    @property
    def has_begun(self) -> bool:
        return self._used > 0

    def note(self, step: int) -> None:
        """Read, if it is time to: 32 times in as many steps as there were before the first."""
        if step < self._next:
            return
        self._every = self._every or max(1, step // _MOST_READINGS)
        if self._used == _MOST_READINGS:
            self._every *= 2
            self._used //= 2
            for column in self._columns:
                for row in range(self._used):
                    column[row] = column[2 * row]
        before, after = self._trim(), self._collect()
        for column, figure in zip(self._columns, (step, after, before - after), strict=True):
            column[self._used] = figure
        self._used += 1
        self._next = step + self._every

    def to_facts(self) -> CleanReadings:
        """Return what was read."""
        return CleanReadings(*(tuple(column[: self._used]) for column in self._columns))
