"""Collect the sequence of a trial's allocations, for the search for what fits.

Core: standard library and NumPy. It is taken from the windows that the replay is fed with, up to
the end of the second steady step. Later steps repeat it.
"""

from __future__ import annotations

import re

import numpy as np

from runner.facts import RequestSequence
from runner.meters.tensor.lifetimes import NEVER
from runner.meters.tensor.window import Window
from runner.records import Phase

MOST_ALLOCATIONS = 100_000
"""A longer sequence takes too long to play; there is none then."""

_LAST_STEP = 1


class RequestCollector:
    """Takes windows in order of time."""

    def __init__(self, allocator: str) -> None:
        """Take a pattern for the name of the allocator whose events count."""
        self._allocator = allocator
        self._bytes: list[int] = []
        self._labels: list[int] = []
        self._names: dict[str, int] = {}
        self._order: list[int] = []
        self._live: dict[int, int] = {}
        """By address: the number of the allocation that has it."""
        self._is_over = False

    def feed(self, window: Window) -> None:
        """Take the events up to the end of the second step, or to an earlier release."""
        if self._is_over:
            return
        ends = [
            mark.end_ns if mark.name == Phase.STEPS else mark.begin_ns
            for mark in window.marks
            if (mark.name == Phase.STEPS and mark.step == _LAST_STEP) or mark.name == Phase.RELEASE
        ]
        names = enumerate(window.names)
        ours = [code for code, name in names if re.fullmatch(self._allocator, name)]
        in_time = window.time_ns <= min(ends, default=NEVER)
        events = window.take(in_time & np.isin(window.allocator, ours))
        columns = (events.address, events.freed, events.requested_bytes, events.op, events.within)
        for address, freed, size, op, within in zip(*(c.tolist() for c in columns), strict=True):
            if not freed:
                label = "|".join(filter(None, (window.text(op), window.text(within))))
                self._live[address] = len(self._bytes)
                self._order.append(len(self._bytes))
                self._bytes.append(size)
                self._labels.append(self._names.setdefault(label, len(self._names)))
            elif address in self._live:
                self._order.append(self._live.pop(address))
        self._is_over = bool(ends) or len(self._bytes) > MOST_ALLOCATIONS

    def to_facts(self) -> RequestSequence | None:
        """Return the sequence; None where it is too long to be played."""
        if len(self._bytes) > MOST_ALLOCATIONS:
            return None
        return RequestSequence(
            tuple(self._bytes), tuple(self._labels), tuple(self._names), tuple(self._order)
        )
