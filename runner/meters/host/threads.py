"""Read what threads hold by being there: their stacks, which no tracer of malloc sees. Child side.

The C library maps a stack for each thread, eight megabytes as a rule, of which the pages count that
were written to. A stack is known by the one page below it that nobody may touch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from runner.facts import Survivor
from runner.records import THREAD_STACKS


class ThreadMeter:
    """`mark` when the tracer sets one; `look` before and after some steps without it, as it writes
    to the stacks itself; `find_survivors` at the end: a place as the tracer's are."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._looks: list[list[int]] = []

    def mark(self) -> None:
        self._counts.append(len(os.listdir("/proc/self/task")))  # noqa: PTH208

    def look(self) -> None:
        if self._counts[-1] != self._counts[0]:
            smaps = Path("/proc/self/smaps").read_text()
            self._looks.append(measure_stacks(smaps.splitlines()))

    def find_survivors(self) -> list[Survivor]:
        """Return what more threads hold: nothing where there are as many as at the first mark."""
        if not self._looks:
            return []
        before, after = self._looks
        more = len(after) - len(before)
        each = (sum(after) - sum(before)) / more if more > 0 else 0.0
        more_at = [count - self._counts[0] for count in self._counts]
        bytes_ = tuple(round(each * count) for count in more_at)
        return [Survivor("native", None, None, None, THREAD_STACKS, bytes_, tuple(more_at))]


def measure_stacks(smaps: Iterable[str]) -> list[int]:
    """Return the bytes that are resident of every thread's stack."""
    found: list[int] = []
    guarded = is_stack = False
    pages = os.sysconf("SC_PAGE_SIZE")
    for line in smaps:
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            begin, end = (int(bound, 16) for bound in first.split("-"))
            is_stack = guarded and rest.startswith("rw-p")
            guarded = rest.startswith("---p") and end - begin == pages
        elif is_stack and first == "Anonymous:":
            found.append(int(rest.split()[0]) * 1024)
    return found
