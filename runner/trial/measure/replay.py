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
- The peak is the first moment of most live bytes from the first event to the last before Python's
  collector runs and the release begins; where a steady step has as much as the phases before, it is
  the step's. Its groups sum to it exactly: they are the allocations live at that moment.
- A free of what was never seen allocated (before the trace began) is counted and changes nothing;
  an address allocated again without a free in between was freed unseen, at that moment at the
  latest, and is counted. So live bytes are never negative.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np

from runner.allocations import (
    GRADIENT,
    Allocations,
    Checks,
    Curve,
    Group,
    Leak,
    Lives,
    Scope,
    Span,
    Split,
)
from runner.records import Phase
from runner.trial.measure.lines import (
    Frames,
    LivesFound,
    Made,
    lines,
    lives,
    opened,
    opened_lives,
    pieces,
    summed,
)
from runner.trial.measure.names import (
    UNKNOWN,
    XLA,
    dtype_name,
    name_and_scope,
    of_forward,
    of_gradient,
    path,
    shape_of,
)
from runner.trial.measure.origins import (
    BUILDING,
    NOTHING_KNOWN,
    PIPELINE,
    NoWitness,
    Origin,
    Witness,
)
from runner.trial.measure.stages import stage_of
from runner.trial.measure.turns import differentiated, is_differentiated, turns
from runner.trial.measure.xplane import (
    EAGER_OP,
    ITERATOR,
    NONE,
    Bools,
    Ints,
    Mark,
    Window,
)

MOST_POINTS = 2_000
"""Of a curve that is kept; what is dropped can't be seen."""

_NEVER = np.iinfo(np.int64).max


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
class Traced(Allocations):
    """What the record keeps of a trial and, beside it, the figures of each phase and step, which
    become the trial's samples."""

    stretches: tuple[Stretch, ...] = ()
    course: str = ""
    """A hash of live bytes after each event, up to the release: equal in two processes that made
    and freed the same in the same order."""
    graph_ops: bool = False
    """Whether TensorFlow's graph executor ran any op: it may take them in any order."""
    collected_bytes: tuple[int, ...] = ()
    """Of the bytes live when each steady step ended, those that Python's collector freed after the
    last one: garbage, and no growth."""

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


@dataclass(frozen=True)
class NoAllocations:
    """There are no figures, and why."""

    reason: str


def allocator_of(kind: str, index: int = 0) -> str:
    """A pattern for TensorFlow's name for the allocator of a device. The CPU's is the one that
    `TF_CPU_ALLOCATOR_USE_BFC=1` puts there: the default one leaves out what is small."""
    return rf"(GPU|PluggableDevice)_{index}_bfc" if kind == "gpu" else "bfc_cpu_allocator_for_gpu"


class _Kind(NamedTuple):
    """What allocations have in common that are counted together."""

    op: str
    scope: str
    shape: tuple[int, ...] | None
    dtype: str
    origin: Origin
    block_bytes: int = 0
    """Of what XLA allocates in one piece: its size."""
    is_run: bool = True
    """Whether an op allocated it as it ran; not so a constant that is folded, or kept, while a
    graph is made ready."""

    @property
    def is_backward(self) -> bool:
        return self.scope.endswith(GRADIENT)


class _Range(NamedTuple):
    """The events of a window that lie within a mark: from number `begin` to before `end`."""

    mark: Mark
    begin: int
    end: int


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


@dataclass(frozen=True)
class _Scene:
    """One window, replayed: the life of each allocation, and live bytes after each event."""

    window: Window
    rows: Ints
    """The events of our allocator; their numbers are places in here."""
    ranges: list[_Range]
    lives: _Lives
    died: Ints
    """The number of the event that ended each, or `_NEVER`."""
    steps: Ints
    """The steady step that each event is in, or `NONE`."""
    level: Ints
    before: int
    """Live bytes before the first event."""

    @property
    def time(self) -> Ints:
        return self.window.time_ns[self.rows]

    def curve(self, one: _Range) -> tuple[Ints, Ints]:
        """Live bytes from the begin of a mark to its end."""
        times, levels = self.time[one.begin : one.end], self.level[one.begin : one.end]
        first = self.level[one.begin - 1] if one.begin else self.before
        last = levels[-1] if levels.size else first
        return (
            np.concatenate([[one.mark.begin_ns], times, [one.mark.end_ns]]),
            np.concatenate([[first], levels, [last]]),
        )


@dataclass
class _Peak:
    bytes: int = 0
    phase: str | None = None
    step: int | None = None
    counts: Counter[int] = field(default_factory=Counter)
    """By kind, as are these: bytes held, kept, kept for the gradient, passing."""
    parts: tuple[Counter[int], ...] = field(default_factory=lambda: (Counter(),) * 4)
    unread: frozenset[int] = frozenset()
    """The kinds made around it that may hold a backward pass unseen."""
    lives: LivesFound | None = None
    times: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    levels: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def split(self, kinds: Iterable[int]) -> Split:
        held, kept, gradient, passing = (sum(part[kind] for kind in kinds) for part in self.parts)
        return Split(held, kept, gradient, passing)


class Replay:
    """Takes windows in order of time; `result` is what they say together."""

    def __init__(self, allocator: str, witness: Witness | None = None) -> None:
        """`allocator`: a pattern for the name of the one whose events count; `witness` knows which
        line of the user's was in TensorFlow when."""
        self._allocator = allocator
        self._witness = witness or NoWitness()
        self._allocators: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._kinds: dict[_Kind, int] = {}
        self._paths: dict[int, set[str]] = {}
        """Of each kind: its nodes, with their scopes."""
        self._op_types: dict[str, str] = {}
        self._carried = _Lives(*np.zeros((6, 0), np.int64))
        self._start_ns: int | None = None
        self._latest = Mark("", 0, 0, 0)
        self._released = False
        self._stretches: list[Stretch] = []
        self._steps: set[int] = set()
        self._lasting: _Lives | None = None
        self._collected: Counter[int] = Counter()
        self._peak = _Peak()
        self._allocated_peak = self._allocator_peak = 0
        self._in_use: int | None = None
        self._live_before = 0
        self._course = hashlib.sha256()
        self._times = self._levels = np.zeros(0, np.int64)

    def feed(self, window: Window) -> None:
        """Replay one more window."""
        scene = self._replayed(window)
        run = 0 if self._released else scene.rows.size  # events before the release
        for mark, begin, _ in scene.ranges:
            if mark.name in (Phase.COLLECTION, Phase.RELEASE):
                self._released, run = True, min(run, begin)
        self._check(scene, run)
        self._course.update(scene.level[:run].tobytes())
        self._take_peak(scene, run)
        self._take_stretches(scene)
        self._take_garbage(scene)
        # Ten times the points that are kept at the end: cut down again and again, few are lost.
        self._times, self._levels = simplify(
            np.concatenate([self._times, scene.time]),
            np.concatenate([self._levels, scene.level]),
            10 * MOST_POINTS,
        )
        self._latest = window.marks[-1] if window.marks else self._latest
        if window.time_ns.size:
            self._witness.forget(int(window.time_ns[-1]))
        self._carried = scene.lives.take(scene.died == _NEVER)
        self._carried.born[:] = NONE

    def _replayed(self, window: Window) -> _Scene:
        rows = self._chosen(window)
        time = window.time_ns[rows]
        ranges = [
            _Range(
                mark,
                int(np.searchsorted(time, mark.begin_ns, "left")),
                int(np.searchsorted(time, mark.end_ns, "right")),
            )
            for mark in window.marks
        ]
        if self._start_ns is None and (time.size or ranges):
            self._start_ns = min([mark.begin_ns for mark, _, _ in ranges] + time[:1].tolist())
        steps = np.full(rows.size, NONE, np.int64)
        for mark, begin, end in ranges:
            if mark.name == Phase.STEPS:
                steps[begin:end] = mark.step
        made = np.flatnonzero(~window.freed[rows])
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
        died = self._deaths(window, rows, lives)
        level = _level(lives.requested, lives.born, died, rows.size)
        before = int(self._carried.requested.sum())
        return _Scene(window, rows, ranges, lives, died, steps, level, before)

    def result(self) -> Traced:
        """What all windows so far say."""
        kinds = list(self._kinds)
        why = self._why_no_gradient(kinds)
        made = opened(self._peak_sums(kinds), self._witness, knows_gradient=why is None)
        groups = _groups(made, self._peak.bytes)
        frames = Frames()
        times, levels = simplify(self._times, self._levels, MOST_POINTS)
        peak_times, peak_levels = simplify(self._peak.times, self._peak.levels, MOST_POINTS)
        return Traced(
            allocator=self._allocator,
            allocators=dict(self._allocators),
            total_bytes=self._peak.bytes,
            phase=self._peak.phase,
            step=self._peak.step,
            split=summed([each.split for each in made]),
            gradient_why=why,
            groups=groups,
            lines=lines(made, self._peak.bytes, frames),
            lives=self._lives(kinds, frames, knows_gradient=why is None),
            leaks=self._leaks_of(kinds, frames),
            frames=frames.all,
            leak_steps=max(len(self._steps) - 1, 0),
            collected_bytes=self._collected_by_step(),
            stretches=tuple(self._stretches),
            marks=tuple(
                Span(one.phase, one.step, one.begin_seconds, one.end_seconds)
                for one in self._stretches
            ),
            curve=self._readable(times, levels),
            peak_curve=self._readable(peak_times, peak_levels),
            allocated_peak_bytes=self._allocated_peak,
            allocator_peak_bytes=self._allocator_peak,
            graph_ops=bool(self._op_types),
            course=self._course.hexdigest()[:16],
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

    def _lives(self, kinds: Sequence[_Kind], frames: Frames, knows_gradient: bool) -> Lives | None:
        if self._peak.lives is None:
            return None
        found = opened_lives(self._peak.lives, kinds, self._witness, knows_gradient)
        return lives(*found, frames, self._start_ns or 0)

    def _seconds(self, time_ns: int) -> float:
        return (time_ns - (self._start_ns or 0)) / 1e9

    def _readable(self, times: Ints, levels: Ints) -> Curve:
        seconds = tuple(self._seconds(int(time)) for time in times)
        return Curve(seconds, tuple(int(level) for level in levels))

    def _chosen(self, window: Window) -> Ints:
        """The events of our allocator, in order; the others are only counted."""
        self._counts["windows"] += 1
        self._counts["trace_events"] += window.trace_events
        self._op_types.update(window.op_types)
        codes, counts = np.unique(window.allocator, return_counts=True)
        for code, count in zip(codes, counts, strict=True):
            self._allocators[_text(window, code)] += int(count)
        chosen = [code for code in codes if re.fullmatch(self._allocator, _text(window, code))]
        rows = np.flatnonzero(np.isin(window.allocator, chosen))
        self._counts["events"] += rows.size
        time = window.time_ns[rows]
        return self._untied(window, rows) if (time[1:] == time[:-1]).any() else rows

    def _untied(self, window: Window, rows: Ints) -> Ints:
        """Events at the same nanosecond in the one order that makes sense: what is live is freed,
        what isn't is allocated. An allocator's clock readings hardly ever tie."""
        live = set(self._carried.address.tolist())
        waiting: list[int] = []
        order: list[int] = []
        times = window.time_ns[rows].tolist()
        for row, time, following in zip(rows.tolist(), times, [*times[1:], None], strict=True):
            waiting.append(row)
            while waiting and time != following:
                fitting = (
                    row for row in waiting if window.freed[row] == (window.address[row] in live)
                )
                row = next(fitting, waiting[0])
                waiting.remove(row)
                order.append(row)
                (live.discard if window.freed[row] else live.add)(window.address[row])
        return np.array(order, np.int64)

    def _kinds_of(self, window: Window, rows: Ints) -> Ints:
        """A number for each allocation's op, scope, shape, dtype and origin."""
        whole = np.zeros(rows.size, np.int64)
        sites = np.zeros(window.time_ns.size, np.int64)
        called = np.where(window.op == NONE, window.within, window.op)[rows]
        ops = [_text(window, code).removeprefix(EAGER_OP) for code in called]
        sites[rows] = self._witness.sites(window.thread[rows], window.time_ns[rows], ops)
        shapeless = np.where(window.shape == NONE, window.requested_bytes, 0)
        columns = (window.op, window.shape, window.dtype, window.within, sites, shapeless)
        for column in (*columns, window.of_pipeline):
            values, which = np.unique(column[rows], return_inverse=True)
            whole = np.unique(whole * values.size + which, return_inverse=True)[1]
        firsts = np.unique(whole, return_index=True)[1]
        numbers = []
        for row in rows[firsts]:
            numbers.append(self._kind_of(window, int(row), int(sites[row])))
        return np.array(numbers, np.int64)[whole]

    def _kind_of(self, window: Window, row: int, site: int) -> int:
        op, within = _text(window, window.op[row]), _text(window, window.within[row])
        size = int(window.requested_bytes[row])
        stages = within if within.startswith(ITERATOR) else ""
        within = "" if stages else within
        node = op or within.removeprefix(EAGER_OP).rpartition(":")[0]
        origin = self._witness.origin(site, node)
        if stages or (window.of_pipeline[row] and (site == NONE or origin.is_library)):
            origin = self._witness.in_pipeline(stages, node)
        name, scope = name_and_scope(op, within, self._op_types)
        if origin.op and node not in self._op_types:
            name, scope = name_and_scope(origin.node or node, "", {origin.node or node: origin.op})
        if name == XLA:
            origin = self._witness.compiled(origin, size)
            scope = scope or name_and_scope(origin.called, "", {})[1]
        scope = scope or origin.scope
        shape, dtype = shape_of(_text(window, window.shape[row])), dtype_name(window.dtype[row])
        is_run = shape is not None
        if not is_run and (output := origin.output(size)) is not None:
            shape, dtype = output[0], dtype_name(output[1])
        if name == UNKNOWN and origin.called:
            name = origin.called if origin.called == BUILDING else f"for {origin.called}"
        if origin.node and not origin.is_backward:
            scope = of_forward(scope)
        if stages and not node:
            name = f"{PIPELINE} {stage_of(stages)}"
        scope = of_gradient(scope) if origin.is_backward else scope
        origin = origin._replace(outputs=(), node="", op="")
        block_bytes = size if name == XLA else 0
        kind = _Kind(name, scope, shape, dtype, origin, block_bytes, is_run)
        number = self._kinds.setdefault(kind, len(self._kinds))
        self._paths.setdefault(number, set()).add(path(node))
        return number

    def _deaths(self, window: Window, rows: Ints, lives: _Lives) -> Ints:
        """For each allocation the number of the event that ends it: its free or, where that was
        not seen, the next allocation of its address."""
        frees = np.flatnonzero(window.freed[rows])
        address = np.concatenate([lives.address, window.address[rows[frees]]])
        number = np.concatenate([lives.born, frees])
        is_free = np.arange(address.size) >= lives.address.size
        order = np.lexsort((number, address))  # the life of each address, one after the other

        address, number, is_free = address[order], number[order], is_free[order]
        goes_on = np.append(address[1:] == address[:-1], False)
        ends_at = np.where(goes_on, np.append(number[1:], NONE), _NEVER)
        died = np.empty_like(ends_at)
        died[order] = ends_at

        is_reused = goes_on & ~is_free & ~np.append(is_free[1:], True)
        was_live = np.append(False, (goes_on & ~is_free)[:-1])
        unmatched = rows[number[is_free & ~was_live]]
        self._counts["reused_addresses"] += int(is_reused.sum())
        self._counts["unmatched_frees"] += unmatched.size
        self._counts["unmatched_free_bytes"] += int(window.requested_bytes[unmatched].sum())
        return died[: lives.address.size]

    def _take_peak(self, scene: _Scene, run: int) -> None:
        """Look for a new peak before event number `run`."""
        highest = int(scene.level[:run].max(initial=0))
        if highest == 0 or highest < self._peak.bytes:
            return
        peaks = np.flatnonzero(scene.level[:run] == highest)
        steady = peaks[scene.steps[peaks] != NONE]
        if highest > self._peak.bytes or (steady.size and self._peak.step is None):
            self._peak = self._peak_at(scene, int(steady[0] if steady.size else peaks[0]))

    def _peak_at(self, scene: _Scene, at: int) -> _Peak:
        """What was live at an event, and what had become of it by the end of its step or phase."""
        lives, died, around = scene.lives, scene.died, self._around(scene, at)
        live = (lives.born <= at) & (died > at)
        held = live & (lives.born < around.begin)
        kept = live & ~held & (died >= around.end)
        passing = live & ~held & ~kept
        inside = (lives.born >= around.begin) & (lives.born < around.end)
        turned = self._turns(scene, lives.born[inside], lives.kind[inside], around)
        after = np.searchsorted(turned, lives.born, "right")
        for_gradient = np.append(turned, _NEVER)[after] <= died
        gradient = passing & for_gradient
        parts = (held, kept, gradient, passing & ~gradient)
        times, levels = scene.curve(around)
        there = inside | (lives.born < around.begin) & (died >= around.begin)
        outlasts = died >= around.end
        found = LivesFound(
            begin_ns=int(times[0]),
            end_ns=int(times[-1]),
            peak_ns=int(scene.time[at]),
            kind=lives.kind[there],
            part=np.select([~inside, outlasts, for_gradient], [0, 1, 2], 3)[there],
            born_ns=np.where(inside, scene.time[lives.born], NONE)[there],
            died_ns=np.where(outlasts, NONE, scene.time[np.minimum(died, around.end - 1)])[there],
            bytes=lives.requested[there],
        )
        return _Peak(
            bytes=int(scene.level[at]),
            phase=around.mark.name or None,
            step=around.mark.step if around.mark.name == Phase.STEPS else None,
            counts=_sums(lives.kind[live], np.ones(int(live.sum()), np.int64)),
            parts=tuple(_sums(lives.kind[part], lives.requested[part]) for part in parts),
            unread=frozenset() if turned.size else self._unread(lives.kind[inside]),
            lives=found,
            times=times,
            levels=levels,
        )

    def _turns(self, scene: _Scene, born: Ints, kinds: Ints, around: _Range) -> Ints:
        """The events with which backward passes begin. Python says when it runs one; those within a
        graph are told by its nodes."""
        asked = self._witness.backward(around.mark.begin_ns, around.mark.end_ns)
        within = np.searchsorted(scene.time, asked)
        inner = np.ones(born.size, bool)
        for begin, end in within:
            inner &= (born < begin) | (born >= end)
        forward, backward = (born[inner & of[kinds]] for of in self._passes())
        return np.union1d(within[:, 0], turns(forward, backward, born))

    def _passes(self) -> tuple[Bools, Bools]:
        """Which kinds are of a graph's forward pass, and which of its backward one."""
        backward = [kind.is_backward and kind.is_run for kind in self._kinds]
        known = differentiated(
            kind.scope
            for kind, is_backward in zip(self._kinds, backward, strict=True)
            if is_backward
        )
        forward = [
            not kind.is_backward
            and not kind.origin.is_eager
            and is_differentiated(self._paths[number] | {kind.scope}, known)
            for number, kind in enumerate(self._kinds)
        ]
        return np.array(forward, bool), np.array(backward, bool)

    def _unread(self, numbers: Ints) -> frozenset[int]:
        """A backward pass is seen where lines are recorded, but within what XLA compiled."""
        kinds = list(self._kinds)
        return frozenset(
            number
            for number in np.unique(numbers).tolist()
            if kinds[number].origin == NOTHING_KNOWN or kinds[number].block_bytes
        )

    def _why_no_gradient(self, kinds: Sequence[_Kind]) -> str | None:
        """Why what is kept for a gradient can't be told from the rest, where it can't."""
        for kind in (kinds[number] for number in sorted(self._peak.unread)):
            if kind.origin == NOTHING_KNOWN:
                return NOTHING_KNOWN.why
            held = list(chain.from_iterable(pieces(kind, self._witness)))
            if not held or any(piece.is_for_gradient is None for piece in held):
                return (
                    f"XLA does not say which node of {kind.scope or 'the function'} each buffer "
                    f"is of in its block of {kind.block_bytes:,} bytes"
                )
        return None

    def _peak_sums(self, kinds: list[_Kind]) -> list[Made]:
        """What was live at the peak, by kind."""
        sizes = sum(self._peak.parts, Counter())
        return [
            Made(
                *kinds[number][:5],
                *(count, sizes[number], self._peak.split([number]), kinds[number].block_bytes),
            )
            for number, count in self._peak.counts.items()
        ]

    def _around(self, scene: _Scene, at: int) -> _Range:
        """The phase or step of an event; of one between two marks, the gap after the first."""
        time, latest, begin = scene.time, self._latest, 0
        for one in scene.ranges:
            if one.begin <= at < one.end:
                return one
            if one.begin > at:
                gap = Mark(latest.name, latest.step, int(time[begin]), one.mark.begin_ns)
                return _Range(gap, begin, one.begin)
            latest, begin = one.mark, one.end
        gap = Mark(latest.name, latest.step, int(time[begin]), int(time[-1]))
        return _Range(gap, begin, time.size)

    def _check(self, scene: _Scene, run: int) -> None:
        """Hold the replay against the running total that each event says of its allocator."""
        window, rows = scene.window, scene.rows
        if not rows.size:
            return
        change = np.where(window.freed[rows], -1, 1) * window.allocated_bytes[rows]
        in_use = window.in_use_bytes[rows]
        if self._in_use is None:
            self._in_use = self._live_before = int(in_use[0] - change[0])
        expected = np.append(self._in_use, in_use[:-1]) + change
        self._counts["disagreements"] += int(np.count_nonzero(expected != in_use))
        self._in_use = int(in_use[-1])
        if run:
            level = _level(scene.lives.allocated, scene.lives.born, scene.died, rows.size)
            peak = int(window.peak_bytes[rows[:run]].max())
            self._allocated_peak = max(self._allocated_peak, int(level[:run].max()))
            self._allocator_peak = max(self._allocator_peak, peak)

    def _take_stretches(self, scene: _Scene) -> None:
        made = ~scene.window.freed[scene.rows]
        requested = scene.window.requested_bytes[scene.rows]
        for one in scene.ranges:
            _, levels = scene.curve(one)
            inside = requested[one.begin : one.end][made[one.begin : one.end]]
            self._stretches.append(
                Stretch(
                    phase=one.mark.name,
                    step=one.mark.step,
                    begin_seconds=self._seconds(one.mark.begin_ns),
                    end_seconds=self._seconds(one.mark.end_ns),
                    live_begin_bytes=int(levels[0]),
                    live_end_bytes=int(levels[-1]),
                    peak_bytes=int(levels.max()),
                    allocated_bytes=int(inside.sum()),
                    allocations=inside.size,
                )
            )

    def _take_garbage(self, scene: _Scene) -> None:
        """What of each step Python's collector frees after the last one, and what outlasts that."""
        self._steps |= {one.mark.step for one in scene.ranges if one.mark.name == Phase.STEPS}
        for one in scene.ranges:
            if one.mark.name == Phase.COLLECTION:
                lives, died = scene.lives, scene.died
                freed = (died >= one.begin) & (died < one.end)
                self._collected += _sums(lives.step[freed], lives.requested[freed])
            if one.mark.name == Phase.RELEASE:
                lives, died = scene.lives, scene.died
                self._lasting = lives.take((lives.born < one.begin) & (died >= one.begin))

    def _collected_by_step(self) -> tuple[int, ...]:
        """Of the bytes live when each step ends, those that the collector then freed."""
        before = sum(size for step, size in self._collected.items() if step == NONE)
        ends = [self._collected[step] for step in sorted(self._steps)]
        return tuple(accumulate(ends, initial=before))[1:]

    def _leaks_of(self, kinds: list[_Kind], frames: Frames) -> tuple[Leak, ...]:
        """What steps made that is live at the end, where more is live than after the first one.
        What the last step made may be the next one's input."""
        ends = [one.live_end_bytes for one in self._stretches if one.phase == Phase.STEPS]
        lasting = self._carried if self._lasting is None else self._lasting
        collected = self._collected_by_step()
        if len(ends) < 2 or ends[-1] - collected[-1] <= ends[0] - collected[0]:
            return ()
        leaked = lasting.take((lasting.step != NONE) & (lasting.step < max(self._steps)))
        sizes = _sums(leaked.kind, leaked.requested)
        counts = _sums(leaked.kind, np.ones(leaked.kind.size, np.int64))
        steps = len(self._steps) - 1
        leaks = [
            Leak(
                *kinds[kind][:4],
                stack=frames.stack(kinds[kind].origin),
                count=count,
                bytes=sizes[kind],
                count_per_step=count / steps,
                bytes_per_step=sizes[kind] / steps,
            )
            for kind, count in counts.items()
        ]
        return tuple(sorted(leaks, key=lambda leak: (-leak.bytes, leak.op, leak.scope)))


def _sums(kinds: Ints, sizes: Ints) -> Counter[int]:
    """The exact sum of the sizes of each kind."""
    distinct, which = np.unique(kinds, return_inverse=True)
    sums = np.zeros(distinct.size, np.int64)
    np.add.at(sums, which, sizes)
    return Counter(dict(zip(distinct.tolist(), sums.tolist(), strict=True)))


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


def _groups(made: Sequence[Made], total: int) -> tuple[Group, ...]:
    members: dict[tuple[str, tuple[int, ...] | None, str], list[Made]] = {}
    for each in made:
        members.setdefault((each.op, each.shape, each.dtype), []).append(each)
    groups = [
        Group(
            op=op,
            shape=shape,
            dtype=dtype,
            count=sum(each.count for each in its),
            bytes=sum(each.bytes for each in its),
            share=sum(each.bytes for each in its) / total,
            split=summed([each.split for each in its]),
            scopes=_scopes(its),
        )
        for (op, shape, dtype), its in members.items()
    ]
    return tuple(
        sorted(groups, key=lambda group: (-group.bytes, group.op, str(group.shape), group.dtype))
    )


def _scopes(made: Sequence[Made]) -> tuple[Scope, ...]:
    sums: dict[str, tuple[int, int]] = {}
    for each in made:
        count, size = sums.get(each.scope, (0, 0))
        sums[each.scope] = count + each.count, size + each.bytes
    scopes = [Scope(name, *found) for name, found in sums.items()]
    return tuple(sorted(scopes, key=lambda scope: (-scope.bytes, scope.scope)))


def simplify(times: Ints, levels: Ints, most: int) -> tuple[Ints, Ints]:
    """A step function with at most about `most` points. Time is cut into equal buckets; of each the
    lowest, the highest and the last point stay, so no extreme and no lasting level is lost."""
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
