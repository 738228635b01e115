"""Allocation events -> what the tensors of one trial took, when, and what they were: the replay.

Core: standard library and NumPy. The events come window by window from `xplane`, with marks around
each phase and each step; the replay carries what is live from one window to the next, so a trial
of any length takes the memory of one window, and linear time.

What may be relied on:

- A byte counts from its allocation's event to its deallocation's, as *requested*, which is exact
  and does not depend on where it lies. The allocator's own sizes, rounding included, are replayed
  beside it, and every event also carries the allocator's own running total: `Checks` says where
  the two part, which means that an event was lost or out of order.
- A phase or a step reaches from the begin of its mark to the mark's end. The caller drops a step's
  result before it ends the mark. So live bytes at the begin are those before the step, and live
  bytes at the end those that outlast it. What happens between two marks belongs to no phase.
- The peak is the first moment of most live bytes from the first event to the last before the
  release begins. Its groups sum to it exactly: they are the allocations live at that moment.
- A free of what was never seen allocated (before the trace began) is counted and changes nothing;
  an address allocated again without a free in between was freed unseen, at that moment at the
  latest, and is counted. So live bytes are never negative.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runner.measure.xplane import NONE, Bools, Ints, Mark, Window
from runner.records import Phase

MOST_POINTS = 2_000
"""Of a curve that is kept; what is dropped can't be seen."""

MOST_TRACE_EVENTS = 100_000
"""In a window. While it traces, the profiler holds some 0.7 kB an event, and 3.2 kB when it stops."""

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Group:
    """Allocations of one op, shape and dtype that were live at the peak."""

    op: str
    shape: tuple[int, ...] | None
    dtype: str
    count: int
    bytes: int
    share: float
    held_bytes: int
    kept_bytes: int
    passing_bytes: int
    scopes: tuple[Scope, ...]
    """Where they came from, largest first; they sum to the group."""


@dataclass(frozen=True)
class Scope:
    """The layer or name scope of an op: `""` where TensorFlow does not tell, as in eager mode."""

    scope: str
    count: int
    bytes: int


@dataclass(frozen=True)
class Leak:
    """Allocations of a step that are still live when the next step ends."""

    op: str
    scope: str
    shape: tuple[int, ...] | None
    dtype: str
    count: int
    bytes: int
    count_per_step: float
    bytes_per_step: float


@dataclass(frozen=True)
class Split:
    """The peak by when it came and went: `held` was there before the step (or phase) of the peak,
    `kept` was made in it and outlasts it, `passing` was made and is freed in it."""

    held_bytes: int
    kept_bytes: int
    passing_bytes: int


@dataclass(frozen=True)
class Stretch:
    """One phase or one steady step, between the begin and the end of its mark."""

    phase: str
    step: int
    begin_seconds: float
    end_seconds: float
    live_begin_bytes: int
    live_end_bytes: int
    peak_bytes: int
    allocated_bytes: int
    allocations: int

    @property
    def peak_above_begin_bytes(self) -> int:
        return self.peak_bytes - self.live_begin_bytes


@dataclass(frozen=True)
class Curve:
    """Live bytes over time: a step function, exact at each point that is kept."""

    seconds: tuple[float, ...]
    bytes: tuple[int, ...]


@dataclass(frozen=True)
class Checks:
    """How far the events can be believed; all but the first four are 0 in a clean trace."""

    events: int
    trace_events: int
    windows: int
    live_before_bytes: int
    """By the allocator's own count, when the trace began."""
    unmatched_frees: int
    unmatched_free_bytes: int
    reused_addresses: int
    disagreements: int
    """Events at which the allocator's own running total departs from the replay's."""


@dataclass(frozen=True)
class Allocations:
    """All that a trial's allocation events say. `to_json` is what the record keeps."""

    allocator: str
    allocators: dict[str, int]
    """Every allocator that had events, and how many."""
    total_bytes: int
    phase: str | None
    step: int | None
    split: Split
    groups: tuple[Group, ...]
    leaks: tuple[Leak, ...]
    leak_steps: int
    stretches: tuple[Stretch, ...]
    curve: Curve
    peak_curve: Curve
    """Through the step, or phase, of the peak."""
    allocated_peak_bytes: int
    """The peak of the allocator's own sizes, replayed."""
    allocator_peak_bytes: int
    """The peak that the allocator says itself."""
    checks: Checks

    @property
    def steps(self) -> tuple[Stretch, ...]:
        return tuple(one for one in self.stretches if one.phase == Phase.STEPS)

    def of(self, phase: Phase) -> Stretch | None:
        """A phase that is one stretch; `None` if the trial did not get there."""
        return next((one for one in self.stretches if one.phase == phase), None)

    @property
    def live_bytes(self) -> int | None:
        """After the last step."""
        return self.steps[-1].live_end_bytes if self.steps else None

    @property
    def retained_bytes(self) -> int | None:
        """After release."""
        release = self.of(Phase.RELEASE)
        return release.live_end_bytes if release else None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class NoAllocations:
    """There are no figures, and why."""

    reason: str


def allocator_of(kind: str, index: int = 0) -> str:
    """TensorFlow's name for the allocator of a device. The CPU's is the one that
    `TF_CPU_ALLOCATOR_USE_BFC=1` puts there: the default one leaves out what is small."""
    return f"GPU_{index}_bfc" if kind == "gpu" else "bfc_cpu_allocator_for_gpu"


@dataclass(frozen=True)
class _Kind:
    """What allocations have in common that are counted together."""

    op: str
    scope: str
    shape: tuple[int, ...] | None
    dtype: str


@dataclass
class _Lives:
    """Allocations as columns, by birth."""

    address: Ints
    requested: Ints
    allocated: Ints
    kind: Ints
    step: Ints
    """The steady step that it was made in, or `NONE`."""
    born: Ints
    """The number of its event in the window; `NONE` if it was carried over into it."""

    @property
    def columns(self) -> tuple[Ints, ...]:
        return tuple(vars(self).values())

    def take(self, rows: Ints | Bools) -> _Lives:
        return _Lives(*(column[rows] for column in self.columns))

    def then(self, other: _Lives) -> _Lives:
        pairs = zip(self.columns, other.columns, strict=True)
        return _Lives(*(np.concatenate(pair) for pair in pairs))


@dataclass
class _Peak:
    bytes: int = 0
    phase: str | None = None
    step: int | None = None
    split: Split = field(default_factory=lambda: Split(0, 0, 0))
    by_kind: dict[int, tuple[int, Split]] = field(default_factory=dict)
    """Count, and bytes."""
    times: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    levels: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


class Replay:
    """Takes windows in order of time; `result` is what they say together."""

    def __init__(self, allocator: str) -> None:
        self._allocator = allocator
        self._seen: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._kinds: dict[_Kind, int] = {}
        self._op_types: dict[str, str] = {}
        self._carried = _Lives(*np.zeros((6, 0), np.int64))
        self._untold: int | None = None  # what the allocator counts more than we have seen
        self._live_before = 0
        self._start_ns: int | None = None
        self._previous: Mark | None = None
        self._over = False
        self._stretches: list[Stretch] = []
        self._steps_seen: set[int] = set()
        self._leaks: Counter[int] = Counter()
        self._leak_bytes: Counter[int] = Counter()
        self._leak_steps = 0
        self._peak = _Peak()
        self._allocated_peak = self._allocator_peak = 0
        self._times = self._levels = np.zeros(0, np.int64)

    def feed(self, window: Window) -> None:
        """Replay one more window."""
        self._counts["windows"] += 1
        self._counts["trace_events"] += window.trace_events
        self._op_types.update(window.op_types)
        codes, counts = np.unique(window.allocator, return_counts=True)
        for code, count in zip(codes, counts, strict=True):
            self._seen[_text(window, code)] += int(count)
        chosen = [code for code in codes if _text(window, code) == self._allocator]
        rows = np.flatnonzero(np.isin(window.allocator, chosen))

        time, freed = window.time_ns[rows], window.freed[rows]
        marks = window.marks
        begins = [int(np.searchsorted(time, mark.begin_ns, "left")) for mark in marks]
        ends = [int(np.searchsorted(time, mark.end_ns, "right")) for mark in marks]
        earliest = [*map(int, time[:1]), *(mark.begin_ns for mark in marks)]
        if self._start_ns is None and earliest:
            self._start_ns = min(earliest)

        made = np.flatnonzero(~freed)
        steps = np.full(rows.size, NONE, np.int64)
        for mark, begin, end in zip(marks, begins, ends, strict=True):
            if mark.name == Phase.STEPS:
                steps[begin:end] = mark.index
        lives = self._carried.then(
            _Lives(
                address=window.address[rows[made]],
                requested=window.requested_bytes[rows[made]],
                allocated=window.allocated_bytes[rows[made]],
                kind=self._kinds_of(window, rows[made]),
                step=steps[made],
                born=made,
            )
        )
        died = self._deaths(lives, window, rows[freed], np.flatnonzero(freed))
        level = _level(lives.requested, lives.born, died, rows.size)
        before = int(self._carried.requested.sum())

        # The peak, from the first event to the release.
        run = 0 if self._over else rows.size
        for mark, begin in zip(marks, begins, strict=True):
            if mark.name == Phase.RELEASE and not self._over:
                self._over, run = True, begin
        self._check(window, rows, lives, died, run)
        if run and (at := int(np.argmax(level[:run]))) >= 0 and level[at] > self._peak.bytes:
            self._take_peak(at, level, before, time, marks, begins, ends, lives, died)

        for mark, begin, end in zip(marks, begins, ends, strict=True):
            live_begin = int(level[begin - 1]) if begin else before
            live_end = int(level[end - 1]) if end else before
            inside = rows[begin:end][~freed[begin:end]]
            self._stretches.append(
                Stretch(
                    phase=mark.name,
                    step=mark.index,
                    begin_seconds=self._seconds(mark.begin_ns),
                    end_seconds=self._seconds(mark.end_ns),
                    live_begin_bytes=live_begin,
                    live_end_bytes=live_end,
                    peak_bytes=max(live_begin, int(level[begin:end].max(initial=0))),
                    allocated_bytes=int(window.requested_bytes[inside].sum()),
                    allocations=inside.size,
                )
            )
        self._take_leaks(marks, ends, lives, died)
        self._times, self._levels = simplify(
            np.concatenate([self._times, time]),
            np.concatenate([self._levels, level]),
            10 * MOST_POINTS,
        )
        self._previous = marks[-1] if marks else self._previous
        self._carried = lives.take(died == _NEVER)
        self._carried.born = np.full(self._carried.born.size, NONE, np.int64)

    def result(self) -> Allocations:
        kinds = list(self._kinds)
        times, levels = simplify(self._times, self._levels, MOST_POINTS)
        return Allocations(
            allocator=self._allocator,
            allocators=dict(self._seen),
            total_bytes=self._peak.bytes,
            phase=self._peak.phase,
            step=self._peak.step,
            split=self._peak.split,
            groups=_groups(self._peak, kinds),
            leaks=self._result_leaks(kinds),
            leak_steps=self._leak_steps,
            stretches=tuple(self._stretches),
            curve=self._curve(times, levels),
            peak_curve=self._curve(self._peak.times, self._peak.levels),
            allocated_peak_bytes=self._allocated_peak,
            allocator_peak_bytes=self._allocator_peak,
            checks=Checks(
                events=self._counts["events"],
                trace_events=self._counts["trace_events"],
                windows=self._counts["windows"],
                live_before_bytes=self._live_before,
                unmatched_frees=self._counts["unmatched_frees"],
                unmatched_free_bytes=self._counts["unmatched_free_bytes"],
                reused_addresses=self._counts["reused_addresses"],
                disagreements=self._counts["disagreements"],
            ),
        )

    def _seconds(self, time_ns: int) -> float:
        return (time_ns - (self._start_ns or 0)) / 1e9

    def _curve(self, times: Ints, levels: Ints) -> Curve:
        seconds = tuple(self._seconds(int(time)) for time in times)
        return Curve(seconds, tuple(int(level) for level in levels))

    def _deaths(self, lives: _Lives, window: Window, rows: Ints, at: Ints) -> Ints:
        """For each allocation the number of the event that ends it: its free or, where that was
        not seen, the next allocation of its address."""
        address = np.concatenate([lives.address, window.address[rows]])
        number = np.concatenate([lives.born, at])
        is_free = np.arange(address.size) >= lives.address.size
        order = np.lexsort((number, address))
        same = np.append(address[order][1:] == address[order][:-1], False)
        following = np.append(number[order][1:], 0)
        died = np.full(address.size, _NEVER, np.int64)
        died[order] = np.where(same, following, _NEVER)

        free_here = is_free[order]
        free_next = np.append(free_here[1:], False)
        self._counts["reused_addresses"] += int(np.count_nonzero(same & ~free_here & ~free_next))
        preceded = np.append(False, same[:-1] & ~free_here[:-1])
        unmatched = order[free_here & ~preceded] - lives.address.size
        self._counts["unmatched_frees"] += unmatched.size
        self._counts["unmatched_free_bytes"] += int(window.requested_bytes[rows[unmatched]].sum())
        return died[: lives.address.size]

    def _check(self, window: Window, rows: Ints, lives: _Lives, died: Ints, run: int) -> None:
        """Hold the replay against what the allocator says itself, at every event."""
        self._counts["events"] += rows.size
        if not rows.size:
            return
        allocated = np.where(window.freed[rows], -1, 1) * window.allocated_bytes[rows]
        untold = window.in_use_bytes[rows] - np.cumsum(allocated)
        if self._untold is None:
            self._untold = self._live_before = int(untold[0])
        told = np.append(self._untold, untold)
        self._counts["disagreements"] += int(np.count_nonzero(told[1:] != told[:-1]))
        self._untold = int(window.in_use_bytes[rows[-1]])
        if run:
            level = _level(lives.allocated, lives.born, died, rows.size)
            self._allocated_peak = max(self._allocated_peak, int(level[:run].max()))
            self._allocator_peak = max(
                self._allocator_peak, int(window.peak_bytes[rows[:run]].max())
            )

    def _take_peak(
        self,
        at: int,
        level: Ints,
        before: int,
        time: Ints,
        marks: tuple[Mark, ...],
        begins: list[int],
        ends: list[int],
        lives: _Lives,
        died: Ints,
    ) -> None:
        """What was live at event `at`, and what became of it by the end of its step or phase."""
        begin, end, mark = 0, level.size, self._previous
        for one, first, last in zip(marks, begins, ends, strict=True):
            if first <= at < last:
                begin, end, mark = first, last, one
                break
            if last <= at:
                begin, mark = last, one
            else:
                end = min(end, first)
        here = (lives.born <= at) & (died > at)
        held = here & (lives.born < begin)
        kept = here & ~held & (died >= end)
        passing = here & ~held & ~kept
        sums = [np.zeros(len(self._kinds), np.int64) for _ in range(4)]
        np.add.at(sums[0], lives.kind[here], 1)
        for total, rows in zip(sums[1:], (held, kept, passing), strict=True):
            np.add.at(total, lives.kind[rows], lives.requested[rows])
        self._peak = _Peak(
            bytes=int(level[at]),
            phase=mark.name if mark else None,
            step=mark.index if mark and mark.name == Phase.STEPS else None,
            split=Split(*(int(total.sum()) for total in sums[1:])),
            by_kind={
                int(kind): (int(sums[0][kind]), Split(*(int(total[kind]) for total in sums[1:])))
                for kind in np.flatnonzero(sums[0])
            },
        )
        self._peak.times, self._peak.levels = simplify(
            np.concatenate([time[begin : begin + 1], time[begin:end]]),
            np.concatenate([[level[begin - 1] if begin else before], level[begin:end]]),
            MOST_POINTS,
        )

    def _take_leaks(
        self, marks: tuple[Mark, ...], ends: list[int], lives: _Lives, died: Ints
    ) -> None:
        for mark, end in zip(marks, ends, strict=True):
            if mark.name != Phase.STEPS:
                continue
            self._steps_seen.add(mark.index)
            if mark.index - 1 in self._steps_seen:
                self._leak_steps += 1
                # (made linear below, when all steps of a window are looked at together)
                leaking = (lives.step == mark.index - 1) & (died >= end)
                for kind in lives.kind[leaking]:
                    self._leaks[int(kind)] += 1
                for kind, size in zip(lives.kind[leaking], lives.requested[leaking], strict=True):
                    self._leak_bytes[int(kind)] += int(size)

    def _result_leaks(self, kinds: list[_Kind]) -> tuple[Leak, ...]:
        leaks = [
            Leak(
                op=kinds[kind].op,
                scope=kinds[kind].scope,
                shape=kinds[kind].shape,
                dtype=kinds[kind].dtype,
                count=count,
                bytes=self._leak_bytes[kind],
                count_per_step=count / self._leak_steps,
                bytes_per_step=self._leak_bytes[kind] / self._leak_steps,
            )
            for kind, count in self._leaks.items()
        ]
        return tuple(sorted(leaks, key=lambda leak: (-leak.bytes, leak.op, leak.scope)))

    def _kinds_of(self, window: Window, rows: Ints) -> Ints:
        """A number for each allocation's op, scope, shape and dtype."""
        columns = (window.op[rows], window.shape[rows], window.dtype[rows])
        distinct, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        numbers = [
            self._kinds.setdefault(
                self._kind(_text(window, op), _text(window, shape), int(dtype)), len(self._kinds)
            )
            for op, shape, dtype in distinct
        ]
        return np.array(numbers, np.int64)[which.reshape(-1)]

    def _kind(self, op: str, shape: str, dtype: int) -> _Kind:
        name, scope = name_and_scope(op, self._op_types.get(op, ""))
        return _Kind(name, scope, _shape(shape), dtype_name(dtype))


def _level(sizes: Ints, born: Ints, died: Ints, events: int) -> Ints:
    """Live bytes after each event."""
    change = np.zeros(events, np.int64)
    own = born != NONE
    change[born[own]] = sizes[own]
    dead = died != _NEVER
    np.subtract.at(change, died[dead], sizes[dead])
    return int(sizes[~own].sum()) + np.cumsum(change)


def _text(window: Window, code: int) -> str:
    return "" if code == NONE else window.names[code]


def _shape(text: str) -> tuple[int, ...] | None:
    """`[64,100]`, as TensorFlow writes it; `None` where it says nothing."""
    if not re.fullmatch(r"\[[\d,]*\]", text):
        return None
    return tuple(int(size) for size in text[1:-1].split(",") if size)


def _groups(peak: _Peak, kinds: list[_Kind]) -> tuple[Group, ...]:
    members: dict[tuple[str, tuple[int, ...] | None, str], list[int]] = {}
    for number in peak.by_kind:
        kind = kinds[number]
        members.setdefault((kind.op, kind.shape, kind.dtype), []).append(number)
    groups = []
    for (op, shape, dtype), numbers in members.items():
        splits = [peak.by_kind[number][1] for number in numbers]
        sizes = [sum(dataclasses.astuple(split)) for split in splits]
        counts = [peak.by_kind[number][0] for number in numbers]
        scopes = [
            Scope(kinds[number].scope, count, size)
            for number, count, size in zip(numbers, counts, sizes, strict=True)
        ]
        groups.append(
            Group(
                op=op,
                shape=shape,
                dtype=dtype,
                count=sum(counts),
                bytes=sum(sizes),
                share=sum(sizes) / peak.bytes,
                held_bytes=sum(split.held_bytes for split in splits),
                kept_bytes=sum(split.kept_bytes for split in splits),
                passing_bytes=sum(split.passing_bytes for split in splits),
                scopes=tuple(sorted(scopes, key=lambda scope: (-scope.bytes, scope.scope))),
            )
        )
    return tuple(
        sorted(groups, key=lambda group: (-group.bytes, group.op, str(group.shape), group.dtype))
    )


def simplify(times: Ints, levels: Ints, most: int) -> tuple[Ints, Ints]:
    """A step function with at most about `most` points. Time is cut into equal buckets; of each the
    lowest, the highest and the last point stay, so no extreme and no lasting level is lost."""
    if times.size <= most:
        return times, levels
    buckets = max(most // 3 - 1, 1)
    edges = np.linspace(int(times[0]), int(times[-1]), buckets + 1)[1:-1].astype(np.int64)
    bounds = [0, *np.searchsorted(times, edges, "right").tolist(), times.size]
    kept = {0, times.size - 1}
    for begin, end in zip(bounds, bounds[1:], strict=False):
        if begin < end:
            part = levels[begin:end]
            kept.update((begin + int(part.argmin()), begin + int(part.argmax()), end - 1))
    rows = np.array(sorted(kept), np.int64)
    return times[rows], levels[rows]


_DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string",
    8: "complex64", 9: "int64", 10: "bool", 11: "qint8", 12: "quint8", 13: "qint32",
    14: "bfloat16", 15: "qint16", 16: "quint16", 17: "uint16", 18: "complex128", 19: "float16",
    20: "resource", 21: "variant", 22: "uint32", 23: "uint64", 24: "float8_e5m2",
    25: "float8_e4m3fn", 26: "float8_e4m3fnuz", 27: "float8_e4m3b11fnuz", 28: "float8_e5m2fnuz",
    29: "int4", 30: "uint4", 31: "int2", 32: "uint2", 33: "float4_e2m1fn",
}  # fmt: skip


def dtype_name(number: int) -> str:
    """TensorFlow's `DataType`, by name; one that it gained since is said to be unknown."""
    return _DTYPES.get(number, "untyped" if number <= 0 else f"unknown ({number})")


def name_and_scope(op: str, op_type: str) -> tuple[str, str]:
    """The op's type and the layer or name scope it belongs to, from TensorFlow's name for it."""
    scope, _, leaf = op.rpartition("/")
    return op_type or re.sub(r"_\d+$", "", leaf) or "unknown", scope
