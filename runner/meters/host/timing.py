"""The meter of a timing trial: it reads the clock and the kernel's account of the process, and
nothing else."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from msgspec.structs import replace

from runner.facts import PhaseFigures
from runner.meters.clock import Clock
from runner.meters.host import floor, malloc
from runner.meters.host.resident import HostMemory, Resident
from runner.records import Phase

_WATCHED_STEPS = 4
"""So many have a high-water mark each: that of all the others comes after mapped files have taken
pages, too, and these would cover a small peak."""


class TimingMeter:
    """Seconds and host bytes of every phase and step, relative to the trial's start."""

    def __init__(
        self,
        host: HostMemory,
        books: malloc.MallocLog,
        most_steps: int,
        clock: Callable[[], float] = Clock.seconds,
    ) -> None:
        self.host = host
        self.unavailable: dict[str, str] = {}
        """Metric -> why it could not be had."""
        if host.problem:
            self.unavailable["host_peak_bytes"] = host.problem
        self.phases: dict[Phase, PhaseFigures] = {}
        self.collected_bytes = 0
        """Bytes that Python's collector freed after the last step."""
        self._books = books
        self._clock = clock
        # Of their full length from the first: that they grew would be seen as a leak.
        self._seconds = array("d", bytes(8 * most_steps))
        self._resident = array("q", bytes(8 * most_steps))
        self._steps = self._reached = self._before_collection = 0
        self._started = 0.0
        self._baseline = 0
        self._lower()
        self._baseline = self.host.anonymous()

    @property
    def seconds(self) -> list[int | float]:
        """Seconds of each step; none at all where the clock stood still or went back in one."""
        found = self._seconds[: self._steps].tolist()
        return found if min(found, default=1) > 0 else []

    @property
    def host_bytes(self) -> list[int | float]:
        """After each step."""
        return [float(resident) for resident in self._resident[: self._steps]]

    def begin(self, phase: Phase, step: int) -> None:
        if phase is Phase.COLLECTION:
            if self._steps:
                self._close(Phase.STEPS, sum(self.seconds), self.host.read())
            self._lower()
            self._before_collection = self.host.anonymous()
            self._books.begin_collection()
            return
        if step < _WATCHED_STEPS:
            self.host.forget()
        self._started = self._clock()

    def end(self, phase: Phase, step: int) -> None:
        seconds = self._clock() - self._started
        if phase is Phase.STEPS:
            if step == len(self._seconds):  # a program takes as many as it likes
                self._seconds.extend(self._seconds)
                self._resident.extend(self._resident)
            self._seconds[step] = seconds
            self._resident[step] = self.host.anonymous() - self._baseline
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
            self._close(phase, seconds, self.host.read())
            if phase is not Phase.RELEASE:  # what it left free would hide a peak, or a leak
                self._lower()
                settled = self.host.anonymous() - self._baseline
                self.phases[phase] = replace(self.phases[phase], host_bytes=settled)

    def drop(self, phase: Phase, step: int) -> None:
        """Forget that a span began; its peak is the next one's."""

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

    def _close(self, phase: Phase, seconds: float, resident: Resident) -> None:
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
