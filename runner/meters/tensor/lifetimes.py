"""From the columns of a window to the birth and the death of each allocation. Core: NumPy.

    event             +a   +b   -a   +c   -b        + allocates, - frees an address
    life of a          [---------)                  alive from its birth on, no more at its death
    life of b               [--------------)
    level              a    ab   b    bc   c        live bytes after each event

What may be relied on:

- A byte counts from its allocation's event to its deallocation's, as *requested*, which is exact
  and does not depend on where it lies. The allocator's own sizes, rounding included, stand beside
  it, and every event also carries the allocator's own running total: `TraceChecks` says where the
  two part, which means that an event was lost or out of order.
- A free of what was never seen allocated (before the trace began) is counted and changes nothing;
  an address allocated again without a free in between was freed unseen, at that moment at the
  latest, and is counted. So live bytes are never negative.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from runner.allocations import TraceChecks
from runner.meters.tensor.window import NONE, Columns, Ints, Mark, Window
from runner.records import Phase

NEVER = np.iinfo(np.int64).max
"""In a column of deaths: alive after the window."""


@dataclass(frozen=True)
class Births(Columns):
    """Allocations as columns, by birth."""

    address: Ints
    requested: Ints
    allocated: Ints
    label: Ints
    """A place in `Attribution.labels`."""
    step: Ints
    """The steady step that it was made in, or `NONE`."""
    born: Ints
    """The number of its event in the window; `NONE` if it was carried over into it."""


class Range(NamedTuple):
    """The events of a window that lie within a mark: from number `begin` to before `end`."""

    mark: Mark
    begin: int
    end: int


@dataclass(frozen=True)
class Lifetimes:
    """The life of each allocation of one window, and live bytes after each event."""

    events: Window
    """Those of our allocator; the numbers of events are places in here."""
    ranges: list[Range]
    births: Births
    died: Ints
    """The number of the event that ended each, or `NEVER`."""
    steps: Ints
    """The steady step that each event is in, or `NONE`."""
    level: Ints
    """Live bytes after each event."""
    before: int
    """Live bytes before the first event."""

    def draw_curve(self, one: Range) -> tuple[Ints, Ints]:
        """Return times and live bytes from the begin of a mark to its end."""
        times = self.events.time_ns[one.begin : one.end]
        levels = self.level[one.begin : one.end]
        first = self.level[one.begin - 1] if one.begin else self.before
        last = levels[-1] if levels.size else first
        return (
            np.concatenate([[one.mark.begin_ns], times, [one.mark.end_ns]]),
            np.concatenate([[first], levels, [last]]),
        )


class LifetimeTracker:
    """Takes windows in order of time, and carries what is live from one to the next."""

    def __init__(self, allocator: str) -> None:
        """`allocator`: a pattern for the name of the one whose events count."""
        self._allocator = allocator
        self.allocators: Counter[str] = Counter()
        """Events by allocator."""
        self.carried = Births(*np.zeros((len(fields(Births)), 0), np.int64))
        """The allocations that are live after the latest window."""
        self.allocator_peak = 0
        self._counts: Counter[str] = Counter()
        self._in_use: int | None = None
        self._live_before = 0

    def pick_events(self, window: Window) -> Window:
        """Return the events of our allocator, in order; count the others."""
        self._counts["windows"] += 1
        codes, counts = np.unique(window.allocator, return_counts=True)
        for code, count in zip(codes, counts, strict=True):
            self.allocators[window.text(code)] += int(count)
        ours = [code for code in codes if re.fullmatch(self._allocator, window.text(code))]
        events = window.take(np.isin(window.allocator, ours))
        self._counts["events"] += events.time_ns.size
        has_ties = (events.time_ns[1:] == events.time_ns[:-1]).any()
        return events.take(self._order_ties(events)) if has_ties else events

    def _order_ties(self, events: Window) -> Ints:
        """Return the rows so that events of one nanosecond come in the one order that makes sense:
        what is live is freed, what isn't is allocated. An allocator's clock readings hardly ever
        tie."""
        live = set(self.carried.address.tolist())
        addresses, freed = events.address.tolist(), events.freed.tolist()
        times = events.time_ns.tolist()
        waiting: list[int] = []
        order: list[int] = []
        for row, (time, following) in enumerate(zip(times, [*times[1:], None], strict=True)):
            waiting.append(row)
            while waiting and time != following:
                fitting = (each for each in waiting if freed[each] == (addresses[each] in live))
                first = next(fitting, waiting[0])
                waiting.remove(first)
                order.append(first)
                (live.discard if freed[first] else live.add)(addresses[first])
        return np.array(order, np.int64)

    def replay(self, events: Window, labels: Ints) -> Lifetimes:
        """Return the lives of a window's allocations; `labels` has a number for each of them."""
        times, marks = events.time_ns, events.marks
        begins = np.searchsorted(times, [mark.begin_ns for mark in marks], "left").tolist()
        ends = np.searchsorted(times, [mark.end_ns for mark in marks], "right").tolist()
        ranges = list(map(Range, marks, begins, ends))
        steps = np.full(events.time_ns.size, NONE, np.int64)
        for mark, begin, end in ranges:
            if mark.name == Phase.STEPS:
                steps[begin:end] = mark.step
        made = np.flatnonzero(~events.freed)
        births = self.carried.join(
            Births(
                address=events.address[made],
                requested=events.requested_bytes[made],
                allocated=events.allocated_bytes[made],
                label=labels,
                step=steps[made],
                born=made,
            )
        )
        died = self._find_deaths(events, births)
        level = _sum_live(births.requested, births.born, died, steps.size)
        before = int(self.carried.requested.sum())
        left = births.take(died == NEVER)
        self.carried = replace(left, born=np.full_like(left.born, NONE))
        return Lifetimes(events, ranges, births, died, steps, level, before)

    def _find_deaths(self, events: Window, births: Births) -> Ints:
        """Return for each allocation the number of the event that ends it: its free or, where that
        was not seen, the next allocation of its address.

        Sorted by address, then by number, an allocation ends with the row below it, if that is of
        the same address:

            address  number  is_free  goes_on   ->  ends_at
               a        0               yes            3
               a        3      yes      yes                     a free; what follows is no end of it
               a        7                              never
        """
        frees = np.flatnonzero(events.freed)
        address = np.concatenate([births.address, events.address[frees]])
        number = np.concatenate([births.born, frees])
        is_free = np.arange(address.size) >= births.address.size
        order = np.lexsort((number, address))

        address, number, is_free = address[order], number[order], is_free[order]
        goes_on = np.append(address[1:] == address[:-1], False)  # the row below is of this address
        ends_at = np.where(goes_on, np.append(number[1:], NONE), NEVER)
        died = np.empty_like(ends_at)
        died[order] = ends_at

        # Two allocations in a row: a free was not seen. A free that no allocation of its address
        # stands above: what it ends was there before the trace.
        is_reused = goes_on & ~is_free & ~np.append(is_free[1:], True)
        was_live = np.append(False, (goes_on & ~is_free)[:-1])
        unmatched = number[is_free & ~was_live]
        self._counts["reused_addresses"] += int(is_reused.sum())
        self._counts["unmatched_frees"] += unmatched.size
        return died[: births.address.size]

    def check(self, found: Lifetimes, run: int) -> None:
        """Hold a window against the running total that each event says of its allocator; take the
        peaks with the allocator's rounding before event number `run`."""
        events = found.events
        if not events.time_ns.size:
            return
        change = np.where(events.freed, -1, 1) * events.allocated_bytes
        in_use = events.in_use_bytes
        if self._in_use is None:
            self._in_use = self._live_before = int(in_use[0] - change[0])
        expected = np.append(self._in_use, in_use[:-1]) + change
        self._counts["disagreements"] += int(np.count_nonzero(expected != in_use))
        self._in_use = int(in_use[-1])
        if run:
            self.allocator_peak = max(self.allocator_peak, int(events.peak_bytes[:run].max()))

    @property
    def checks(self) -> TraceChecks:
        names = (each.name for each in fields(TraceChecks) if each.name != "live_before_bytes")
        return TraceChecks(
            live_before_bytes=self._live_before, **{name: self._counts[name] for name in names}
        )


def _sum_live(sizes: Ints, born: Ints, died: Ints, events: int) -> Ints:
    """Return live bytes after each event."""
    change = np.zeros(events, np.int64)
    own = born != NONE
    change[born[own]] = sizes[own]
    dead = died != NEVER
    np.subtract.at(change, died[dead], sizes[dead])
    return int(sizes[~own].sum()) + np.cumsum(change)
