"""The meter of a timing trial: it reads the clock and the kernel's account of the process, and
nothing else."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable

from msgspec.structs import replace

from runner.analysis.growth import RiseWatch, judge_resident
from runner.facts import CleanReadings, PhaseFigures, StepSeries
from runner.meters import collector
from runner.meters.clock import Clock
from runner.meters.host import floor, malloc
from runner.meters.host.clean import CleanLog
from runner.meters.host.resident import HostMemory, read_room_bytes
from runner.records import Phase

_WATCHED_STEPS = 4
"""So many have a high-water mark each: that of all the others comes after mapped files have taken
pages, too, and these would cover a small peak."""

_MOST_READINGS = 256
"""So many readings of what is resident are kept of all steps, however many they are."""

_SHARE_OF_ROOM = 1 / 16
"""The share of free memory that may be taken by steps that nobody asked for."""


class LeastSeries:
    """The least of every few values in a row: a series that is thinned as it grows, and keeps the
    troughs. Of its full length from the first: that it grew would be seen as a leak."""

    def __init__(self, length: int = _MOST_READINGS) -> None:
        self.stride = 1
        """Each value kept is the least of so many."""
        self._kept = array("q", bytes(8 * length))
        self._count = 0

    def add(self, value: int) -> None:
        place, rest = divmod(self._count, self.stride)
        if place == len(self._kept):
            self.stride *= 2
            place //= 2
            for each in range(place):
                self._kept[each] = min(self._kept[2 * each], self._kept[2 * each + 1])
        if not rest or value < self._kept[place]:
            self._kept[place] = value
        self._count += 1

    @property
    def values(self) -> list[float]:
        """Return one for each full stride."""
        return [float(each) for each in self._kept[: self._count // self.stride]]


class TimingMeter:
    """Seconds and host bytes of every phase and step, relative to the trial's start."""

    def __init__(
        self,
        host: HostMemory,
        books: malloc.MallocLog,
        most_steps: int,
        clock: Callable[[], float] = Clock.seconds,
        clean_after: tuple[float, float] = (math.inf, math.inf),
    ) -> None:
        """Take the number of steps that are wanted in any case; `books` are fed by the caller.

        After so many steps, or seconds of them, clean readings begin, which hide what garbage costs
        at the peak; at the latest with the steps that nobody asked for.
        """
        self.host = host
        self.unavailable: dict[str, str] = {}
        """Metric -> why it could not be had."""
        if host.problem:
            self.unavailable["host_peak_bytes"] = host.problem
        self.phases: dict[Phase, PhaseFigures] = {}
        self.collected_bytes = 0
        """Bytes that Python's collector freed after the last step."""
        self.clean = CleanLog(self._read_trimmed, self._read_collected)
        self._books, self._clean_after = books, clean_after
        self._clock = clock
        # Of its full length from the first: that it grew would be seen as a leak.
        self._seconds = array("d", bytes(8 * most_steps))
        self._resident = LeastSeries()
        self._watch = RiseWatch()
        self._most_resident: float | None = None
        """What steps that nobody asked for may reach; None before the first of them."""
        self._steps = self._reached = self._before_collection = 0
        self._started = self._first_step = self._whole_seconds = 0.0
        self._baseline = 0
        sawtooth = [1e6 * (step % 60) for step in range(_MOST_READINGS)]
        rows = tuple(range(128, _MOST_READINGS, 8))
        # The first time takes a megabyte.
        judge_resident(sawtooth, 1, CleanReadings(rows, rows, (10**6,) * len(rows)))
        self._lower()
        self._baseline = self.host.anonymous()

    @property
    def seconds(self) -> list[int | float]:
        """Seconds of each step; none at all where the clock stood still or went back in one."""
        found = self._seconds[: self._steps].tolist()
        return found if min(found, default=1) > 0 else []

    @property
    def steps(self) -> StepSeries:
        """Return what was read after each step."""
        return StepSeries(
            seconds=tuple(self.seconds),
            whole_seconds=self._whole_seconds if self._whole_seconds > 0 else None,
            host_bytes=tuple(self._resident.values),
            host_stride=self._resident.stride,
        )

    def needs_more(self, steps: int, seconds: float) -> bool:
        """Return True if one more step after so many, which nobody has asked for, would help to
        tell growth from none. What such steps take is part of no figure but growth."""
        if self._most_resident is None:
            self._close(Phase.STEPS, sum(self.seconds))
            self._most_resident = self.host.anonymous() + read_room_bytes() * _SHARE_OF_ROOM
        if self._watch.is_due(steps):
            before = self.host.anonymous()
            resident, books = self._resident, self._books.to_facts()
            clean = self.clean.to_facts()
            found = judge_resident(resident.values, resident.stride, clean, books)
            self._watch.look(steps, seconds, found)
            self._baseline += self.host.anonymous() - before  # what looking has taken
        return self._watch.needs_more and self.host.anonymous() < self._most_resident

    def begin(self, phase: Phase, step: int) -> None:
        if phase is Phase.COLLECTION:
            if self._steps and self._most_resident is None:
                self._close(Phase.STEPS, sum(self.seconds))
            collector.empty_free_lists()
            self._lower()
            self._before_collection = self.host.anonymous()
            self._books.begin_collection()
            return
        if phase is Phase.STEPS and self._is_late(step):
            self.clean.note(step)
        if step < _WATCHED_STEPS:
            self.host.forget()
        self._started = self._clock()
        if phase is Phase.STEPS and step == 0:
            self._first_step = self._started

    def end(self, phase: Phase, step: int) -> None:
        ended = self._clock()
        seconds = ended - self._started
        if phase is Phase.STEPS:
            self._whole_seconds = ended - self._first_step
            if self.clean.has_begun and (step + 1) % self._resident.stride == 0:
                malloc.trim()
            self._resident.add(self.host.anonymous() - self._baseline)
            if self._most_resident is None:
                if step == len(self._seconds):  # a program takes as many as it likes
                    self._seconds.extend(self._seconds)
                self._seconds[step] = seconds
                self._steps = step + 1
            if step < _WATCHED_STEPS - 1:
                self.pause()
        elif phase is Phase.COLLECTION:
            self._books.end_collection()
            # Small blocks that it frees stay resident, but taking them now moves nothing.
            taken = self._lower()
            freed = self._before_collection - self.host.anonymous() + taken
            self.collected_bytes = max(0, freed)
        else:
            self._close(phase, seconds)
            if phase is not Phase.RELEASE:  # what it left free would hide a peak, or a leak
                self._lower()
                settled = self.host.anonymous() - self._baseline
                self.phases[phase] = replace(self.phases[phase], host_bytes=settled)

    def drop(self, phase: Phase, step: int) -> None:
        """Forget that a span began; its peak is the next one's."""

    def _is_late(self, step: int) -> bool:
        """Return True if what is resident may be changed before this step."""
        steps, seconds = self._clean_after
        is_asked_for = self._most_resident is None
        return not is_asked_for or step >= steps or self._whole_seconds >= seconds

    def _read_trimmed(self) -> int:
        malloc.trim()
        return self.host.anonymous() - self._baseline

    def _read_collected(self) -> int:
        collector.collect()
        return self._read_trimmed()

    def _lower(self) -> int:
        """Lower the floor, and below it what a look of the meter's own takes; return the bytes that
        were taken."""
        lowered = floor.lower(self.host.anonymous)
        before = self.host.anonymous()
        self.host.forget()
        self.host.peak(self.host.read())
        self._baseline += lowered.moved_bytes + self.host.anonymous() - before
        return lowered.taken_bytes

    def pause(self) -> None:
        """Note the peak so far: what comes until `resume` is not the trial's memory."""
        self._reached = max(self._reached, self.host.peak(self.host.read()))

    def resume(self) -> None:
        malloc.trim()
        self.host.forget()

    def _close(self, phase: Phase, seconds: float) -> None:
        resident = self.host.read()
        peak = max(self._reached, self.host.peak(resident))
        self._reached = 0
        if seconds <= 0:
            metrics = ("step_seconds", "examples_per_second")
            why = f"the clock did not go forward in {phase}"
            names = metrics if phase is Phase.STEPS else (f"{phase}_seconds",)
            self.unavailable.update(dict.fromkeys(names, why))
        before = self.phases.get(phase, PhaseFigures(seconds=0.0))  # of one that is taken up again
        above = max(peak - self._baseline, before.host_peak_bytes or -self._baseline)
        is_known = seconds > 0 and before.seconds is not None
        self.phases[phase] = PhaseFigures(
            seconds=seconds + (before.seconds or 0.0) if is_known else None,
            host_bytes=resident.anonymous - self._baseline,
            host_peak_bytes=None if self.host.problem else above,
        )
