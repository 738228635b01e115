"""Replay a trial's allocation events: what its tensors took, when, and what they were.

Core: standard library and NumPy. The events come window by window, with marks around each phase and
each step; see the README for the way of one event. What is live is carried from one window to the
next, so a trial of any length takes the memory of one window, and linear time.

A phase or a step reaches from the begin of its mark to the mark's end. The caller drops a step's
result before it ends the mark. So live bytes at the begin are those before the step, and live bytes
at the end those that outlast it. What happens between two marks belongs to no phase.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from runner.allocations import Allocations, Curve, LeakedGroup, Span
from runner.meters.tensor.attribution import Attribution
from runner.meters.tensor.breakdown import Breakdown, FrameTable, open_blocks
from runner.meters.tensor.lifetimes import Births, Lifetimes, LifetimeTracker, Range
from runner.meters.tensor.lives import describe_lives
from runner.meters.tensor.peak import HELD, PeakFinder
from runner.meters.tensor.recording import Recording
from runner.meters.tensor.window import NONE, Ints, Window
from runner.records import Phase

MOST_POINTS = 2_000
"""The points of a curve that are kept; the others could not be seen."""


class Stretch(NamedTuple):
    """One phase or one steady step, between the begin and the end of its mark."""

    span: Span
    begin_bytes: int
    """Live."""
    end_bytes: int
    peak_bytes: int
    allocated_bytes: int
    allocations: int

    def join(self, rest: Stretch) -> Stretch:
        """Return the phase or step of which this is a part, and `rest` what came after it."""
        return Stretch(
            self.span._replace(end_seconds=rest.span.end_seconds),
            self.begin_bytes,
            rest.end_bytes,
            max(self.peak_bytes, rest.peak_bytes),
            self.allocated_bytes + rest.allocated_bytes,
            self.allocations + rest.allocations,
        )


@dataclass(frozen=True)
class TraceResult(Allocations):
    """A trial's allocations as the record keeps them and, beside them, the figures of each phase
    and step, which become the trial's samples."""

    stretches: tuple[Stretch, ...] = ()
    course: str = ""
    """A hash of live bytes after each event, up to the release: equal in two processes that made
    and freed the same in the same order."""
    graph_ops: bool = False
    """TensorFlow's graph executor ran an op: it may take them in any order."""
    collected_bytes: tuple[int, ...] = ()
    """The bytes that were live when each steady step ended, and that Python's collector freed after
    the last one: garbage, and no growth."""

    @property
    def steps(self) -> tuple[Stretch, ...]:
        return tuple(one for one in self.stretches if one.span.phase == Phase.STEPS)

    @property
    def retained_bytes(self) -> int | None:
        """After release."""
        release = (one for one in self.stretches if one.span.phase == Phase.RELEASE)
        return next((one.end_bytes for one in release), None)


@dataclass(frozen=True)
class NoAllocations:
    """There are no figures, and why."""

    reason: str


class Replay:
    """Takes windows in order of time; `result` is what they say together."""

    def __init__(self, allocator: str, recording: Recording | None = None) -> None:
        """`allocator`: a pattern for the name of the one whose events count; `recording`: which
        line of the user's was in TensorFlow when."""
        self._allocator = allocator
        self._recording = recording or Recording()
        self._attribution = Attribution(self._recording)
        self._tracker = LifetimeTracker(allocator)
        self._peaks = PeakFinder(self._attribution.find_turns)
        self._start_ns: int | None = None
        self._is_released = False
        self._stretches: list[Stretch] = []
        self._lasting: Births | None = None
        """The allocations that are live when the release begins."""
        self._collected: Counter[int] = Counter()
        """By the step that made it: what Python's collector freed."""
        self._course = hashlib.sha256()
        self._times = self._levels = np.zeros(0, np.int64)

    @property
    def shown_bytes(self) -> int:
        """Return the peak of all windows so far; 0 where an event may have been lost."""
        return self._peaks.peak.bytes if self._tracker.checks.is_clean else 0

    def feed(self, window: Window, is_cut: bool = False) -> None:
        """Replay one more window; `is_cut`: it begins within the phase or the step in which the one
        before was closed."""
        events = self._tracker.pick_events(window)
        labels = self._attribution.number_labels(events.take(~events.freed))
        found = self._tracker.replay(events, labels)
        begins = [mark.begin_ns for mark in window.marks] + events.time_ns[:1].tolist()
        if self._start_ns is None and begins:
            self._start_ns = min(begins)
        run = 0 if self._is_released else events.time_ns.size  # events before the release
        for mark, begin, _ in found.ranges:
            if mark.name in (Phase.COLLECTION, Phase.RELEASE):
                self._is_released, run = True, min(run, begin)
        self._tracker.check(found, run)
        self._course.update(found.level[:run].tobytes())
        self._peaks.feed(found, run)
        for one in found.ranges:
            stretch = self._describe_stretch(found, one)
            if is_cut and self._stretches and self._stretches[-1].span[:2] == stretch.span[:2]:
                stretch = self._stretches.pop().join(stretch)
            is_cut = False
            self._stretches.append(stretch)
            self._note_garbage(found, one)
        # Ten times the points that are kept at the end: cut down again and again, few are lost.
        self._times, self._levels = simplify(
            np.concatenate([self._times, events.time_ns]),
            np.concatenate([self._levels, found.level]),
            10 * MOST_POINTS,
        )
        if window.time_ns.size:
            self._recording.forget(int(window.time_ns[-1]))

    def _describe_stretch(self, found: Lifetimes, one: Range) -> Stretch:
        _, levels = found.draw_curve(one)
        events = slice(one.begin, one.end)
        made = found.events.requested_bytes[events][~found.events.freed[events]]
        return Stretch(
            Span(*one.mark[:2], *map(self._to_seconds, one.mark[2:])),
            begin_bytes=int(levels[0]),
            end_bytes=int(levels[-1]),
            peak_bytes=int(levels.max()),
            allocated_bytes=int(made.sum()),
            allocations=made.size,
        )

    def _note_garbage(self, found: Lifetimes, one: Range) -> None:
        """Note what of each step Python's collector frees after the last one, and what outlasts
        that."""
        births, died = found.births, found.died
        if one.mark.name == Phase.COLLECTION:
            freed = births.take((died >= one.begin) & (died < one.end))
            for step in np.unique(freed.step).tolist():
                self._collected[step] += int(freed.requested[freed.step == step].sum())
        if one.mark.name == Phase.RELEASE:
            self._lasting = births.take((births.born < one.begin) & (died >= one.begin))

    def result(self) -> TraceResult:
        """Return what all windows so far say."""
        peak, labels = self._peaks.peak, self._attribution.labels
        why = None
        if not peak.has_backward:
            made = np.unique(peak.tensors.label[peak.tensors.part != HELD])
            why = self._attribution.explain_unknown_gradient([labels[number] for number in made])
        tensors, labels = open_blocks(
            peak.tensors, labels, self._attribution.open_block, knows_gradient=why is None
        )
        frames = FrameTable()
        whole = Breakdown(tensors, labels, peak.bytes, why is None, frames)
        return TraceResult(
            allocator=self._allocator,
            allocators=dict(self._tracker.allocators),
            total_bytes=peak.bytes,
            phase=peak.phase,
            step=peak.step,
            split=whole.split,
            gradient_why=why,
            groups=whole.list_groups(),
            lines=whole.list_lines(),
            lives=describe_lives(peak, tensors, labels, frames, self._start_ns or 0),
            leaks=self._list_leaks(frames),
            frames=frames.list_frames(),
            leak_steps=max(len(self._steps) - 1, 0),
            collected_bytes=self._list_collected(),
            stretches=tuple(self._stretches),
            marks=tuple(one.span for one in self._stretches),
            curve=self._to_curve(self._times, self._levels),
            peak_curve=self._to_curve(peak.times, peak.levels),
            allocator_peak_bytes=self._tracker.allocator_peak,
            graph_ops=bool(self._attribution.op_types),
            course=self._course.hexdigest()[:16],
            checks=self._tracker.checks,
        )

    @property
    def _steps(self) -> list[int]:
        return sorted(one.span.step for one in self._stretches if one.span.phase == Phase.STEPS)

    def _to_seconds(self, time_ns: int) -> float:
        return (time_ns - (self._start_ns or 0)) / 1e9

    def _to_curve(self, times: Ints, levels: Ints) -> Curve:
        times, levels = simplify(times, levels, MOST_POINTS)
        return Curve(tuple(map(self._to_seconds, times.tolist())), tuple(levels.tolist()))

    def _list_collected(self) -> tuple[int, ...]:
        """Return of the bytes live when each step ends those that the collector then freed."""
        before = sum(size for step, size in self._collected.items() if step == NONE)
        ends = [self._collected[step] for step in self._steps]
        return tuple(accumulate(ends, initial=before))[1:]

    def _list_leaks(self, frames: FrameTable) -> tuple[LeakedGroup, ...]:
        """Return what steps made that is live at the end, where more is live than after the first
        one. What the last step made may be the next one's input."""
        ends = [one.end_bytes for one in self._stretches if one.span.phase == Phase.STEPS]
        lasting = self._tracker.carried if self._lasting is None else self._lasting
        collected = self._list_collected()
        if len(ends) < 2 or ends[-1] - collected[-1] <= ends[0] - collected[0]:
            return ()
        leaked = lasting.take((lasting.step != NONE) & (lasting.step < self._steps[-1]))
        labels, steps = self._attribution.labels, len(self._steps) - 1
        leaks = []
        for number in np.unique(leaked.label).tolist():
            sizes, label = leaked.requested[leaked.label == number], labels[number]
            leaks.append(
                LeakedGroup(
                    *(label.op, label.scope, label.shape, label.dtype),
                    stack=frames.number_lines(label.origin),
                    count=sizes.size,
                    bytes=int(sizes.sum()),
                    count_per_step=sizes.size / steps,
                    bytes_per_step=int(sizes.sum()) / steps,
                )
            )
        return tuple(sorted(leaks, key=lambda leak: (-leak.bytes, leak.op, leak.scope)))


def simplify(times: Ints, levels: Ints, most: int) -> tuple[Ints, Ints]:
    """Return a step function with at most about `most` points. Time is cut into equal buckets; of
    each the lowest, the highest and the last point stay, so no extreme and no lasting level is
    lost."""
    if times.size <= most:
        return times, levels
    buckets = max(most // 3 - 1, 1)
    edges = np.linspace(int(times[0]), int(times[-1]), buckets + 1)[1:-1].astype(np.int64)
    bounds = [0, *np.searchsorted(times, edges, "right").tolist(), times.size]
    kept = {0, times.size - 1}
    for begin, end in pairwise(bounds):
        if begin < end:
            part = levels[begin:end]
            kept.update((begin + int(part.argmin()), begin + int(part.argmax()), end - 1))
    rows = np.array(sorted(kept), np.int64)
    return times[rows], levels[rows]
