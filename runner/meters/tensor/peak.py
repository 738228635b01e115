"""Find the moment of most live bytes, and what was there in its step. Core: NumPy.

Each tensor of the step (or phase) of the peak has a part, by when it came and went:

                 the step begins     its backward pass begins     the step ends
    held      [------|--------------------|---------------------------|----       was there
    kept             |   [----------------|---------------------------|----       outlasts it
    gradient         |        [-----------|--------)                  |           waits for it
    passing          |    [--)            |   [------)                |
                  [--|--------------------|-----)                     |           held
    passing          |                    |   [-----------------------|----       takes its place

The peak is the first moment of most live bytes from the first event to the last before Python's
collector runs and the release begins; where a steady step has as much as the phases before, it is
the step's. Those live at that moment sum to it exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from runner.meters.tensor.lifetimes import NEVER, Lifetimes, Range
from runner.meters.tensor.window import NONE, Bools, Columns, Ints, Mark
from runner.records import Phase

HELD, KEPT, GRADIENT, PASSING = range(4)


def _no_numbers() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Tensors(Columns):
    """Every tensor that was there in the step of the peak, as columns, by birth."""

    label: Ints = field(default_factory=_no_numbers)
    part: Ints = field(default_factory=_no_numbers)
    """A place in `PARTS`."""
    born_ns: Ints = field(default_factory=_no_numbers)
    """`NONE` for a birth before the step."""
    died_ns: Ints = field(default_factory=_no_numbers)
    """`NONE` for a death after it."""
    bytes: Ints = field(default_factory=_no_numbers)
    is_live: Bools = field(default_factory=lambda: np.zeros(0, bool))
    """At the moment of the peak."""


@dataclass(frozen=True)
class Peak:
    """The fullest moment so far. `times` and `levels` are live bytes through its step."""

    bytes: int = 0
    at_ns: int = 0
    phase: str | None = None
    step: int | None = None
    has_backward: bool = False
    """A backward pass was seen to begin in the step."""
    tensors: Tensors = Tensors()
    times: Ints = field(default_factory=_no_numbers)
    levels: Ints = field(default_factory=_no_numbers)


FindTurns = Callable[[Lifetimes, Ints, Ints, Mark], Ints]
"""From the births within a mark and their labels to the events with which backward passes begin."""


class PeakFinder:
    """Takes windows in order of time; `peak` is the highest so far."""

    def __init__(self, find_turns: FindTurns) -> None:
        self.peak = Peak()
        self._find_turns = find_turns
        self._latest = Mark("", 0, 0, 0)

    def feed(self, found: Lifetimes, run: int) -> None:
        """Look for a new peak before event number `run`."""
        highest = int(found.level[:run].max(initial=0))
        if highest and highest >= self.peak.bytes:
            peaks = np.flatnonzero(found.level[:run] == highest)
            steady = peaks[found.steps[peaks] != NONE]
            if highest > self.peak.bytes or (steady.size and self.peak.step is None):
                self.peak = self._describe(found, int(steady[0] if steady.size else peaks[0]))
        if found.ranges:
            self._latest = found.ranges[-1].mark

    def _describe(self, found: Lifetimes, at: int) -> Peak:
        """Return what was live at an event, and what had become of it by the end of its step."""
        births, died, times = found.births, found.died, found.events.time_ns
        around = self._find_range(found, at)
        inside = (births.born >= around.begin) & (births.born < around.end)
        outlasts = died >= around.end
        given_up = (births.born < around.begin) & (died >= around.begin) & ~outlasts
        replaces = _pair_off(births.requested, inside & outlasts, given_up)
        turns = self._find_turns(found, births.born[inside], births.label[inside], around.mark)
        # Waits for the gradient: a backward pass begins after its birth and before its death.
        next_turn = np.append(turns, NEVER)[np.searchsorted(turns, births.born, "right")]
        waits = next_turn <= died
        tensors = Tensors(
            label=births.label,
            part=np.select(
                [~inside, replaces, outlasts, waits], [HELD, PASSING, KEPT, GRADIENT], PASSING
            ),
            born_ns=np.where(inside, times[births.born], NONE),
            died_ns=np.where(outlasts, NONE, times[np.minimum(died, around.end - 1)]),
            bytes=births.requested,
            is_live=(births.born <= at) & (died > at),
        )
        curve_times, levels = found.draw_curve(around)
        return Peak(
            bytes=int(found.level[at]),
            at_ns=int(times[at]),
            phase=around.mark.name or None,
            step=around.mark.step if around.mark.name == Phase.STEPS else None,
            has_backward=bool(turns.size),
            tensors=tensors.take(inside | (births.born < around.begin) & (died >= around.begin)),
            times=curve_times,
            levels=levels,
        )

    def _find_range(self, found: Lifetimes, at: int) -> Range:
        """Return the phase or step of an event, or the gap that it lies in after one."""
        times, latest, begin, end = found.events.time_ns, self._latest, 0, found.events.time_ns.size
        end_ns = int(times[-1])
        for one in found.ranges:
            if one.begin <= at < one.end:
                return one
            if one.begin > at:
                end, end_ns = one.begin, one.mark.begin_ns
                break
            latest, begin = one.mark, one.end
        return Range(Mark(latest.name, latest.step, int(times[begin]), end_ns), begin, end)


def _pair_off(sizes: Ints, lasting: Bools, given_up: Bools) -> Bools:
    """Return which of the lasting tensors take the place of one that is given up, of the same size:
    a graph gives a variable a new buffer with each update, and nothing more is kept by that."""
    places = Counter(sizes[given_up].tolist())
    pairs = np.zeros(sizes.size, bool)
    for row in np.flatnonzero(lasting).tolist():
        size = int(sizes[row])
        if places[size]:
            places[size] -= 1
            pairs[row] = True
    return pairs
