"""The sequence of a trial's allocations, for the search for what fits: taken from the windows that
the replay is fed with, up to the end of the second steady step. Later steps repeat it.

Core: standard library and NumPy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from runner.records import Phase
from runner.trial.measure.xplane import NONE, Window

MOST_ALLOCATIONS = 100_000
"""A longer sequence takes too long to play; there is none then."""

_LAST_STEP = 1


@dataclass(frozen=True)
class Requests:
    """What a trial asked its allocator for. `bytes` and `labels` have an entry an allocation, by
    birth: its size, and what asked for it. `order` has the allocations' numbers: each where it is
    made, and a second time where it is freed. `grows`: as of `fit.bfc.Pool`."""

    bytes: tuple[int, ...]
    labels: tuple[str, ...]
    order: tuple[int, ...]
    grows: bool = True


class RequestCollector:
    """Takes windows in order of time."""

    def __init__(self, allocator: str) -> None:
        """`allocator`: a pattern for the name of the one whose events count."""
        self._allocator = allocator
        self._bytes: list[int] = []
        self._labels: list[int] = []
        self._names: dict[str, int] = {}
        self._order: list[int] = []
        self._live: dict[int, int] = {}
        self._is_over = False

    def feed(self, window: Window) -> None:
        end_ns = self._end_ns(window)
        ours = {
            code for code, name in enumerate(window.names) if re.fullmatch(self._allocator, name)
        }
        for row in range(window.time_ns.size):
            if self._is_over or window.time_ns[row] > end_ns:
                self._is_over = True
                return
            if int(window.allocator[row]) in ours:
                self._note(window, row)
                self._is_over = len(self._bytes) > MOST_ALLOCATIONS

    def _end_ns(self, window: Window) -> float:
        """Of the second step, or of an earlier release."""
        ends = [mark.end_ns for mark in window.marks
                if mark.name == Phase.STEPS and mark.step == _LAST_STEP]  # fmt: skip
        ends += [mark.begin_ns for mark in window.marks if mark.name == Phase.RELEASE]
        return min(ends, default=float("inf"))

    def _note(self, window: Window, row: int) -> None:
        address = int(window.address[row])
        if window.freed[row]:
            if address in self._live:
                self._order.append(self._live.pop(address))
            return
        label = "|".join(
            window.names[code] for code in (window.op[row], window.within[row]) if code != NONE
        )
        self._live[address] = len(self._bytes)
        self._order.append(len(self._bytes))
        self._bytes.append(int(window.requested_bytes[row]))
        self._labels.append(self._names.setdefault(label, len(self._names)))

    def to_json(self) -> dict[str, Any] | None:
        if len(self._bytes) > MOST_ALLOCATIONS:
            return None
        return {
            "bytes": self._bytes,
            "labels": self._labels,
            "names": list(self._names),
            "order": self._order,
        }


def from_json(data: dict[str, Any], *, grows: bool) -> Requests:
    names = data["names"]
    return Requests(
        bytes=tuple(data["bytes"]),
        labels=tuple(names[code] for code in data["labels"]),
        order=tuple(data["order"]),
        grows=grows,
    )
