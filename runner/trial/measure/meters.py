"""The meters that the phase loop is given: one for timing trials, one for memory trials.

A timing trial reads the clock and the kernel's account of the process, and nothing else. Host
memory is anonymous resident memory (`RssAnon`): pages of libraries that TensorFlow maps in are the
kernel's to drop, and not the user's memory. The peak comes from the kernel's high-water mark, which
is exact to a few pages and misses nothing; it covers mapped files too, so their share at the end of
the span is taken off.
"""

from __future__ import annotations

import os
import time
from array import array
from dataclasses import dataclass, field

from runner.records import Phase
from runner.trial.measure import floor
from runner.trial.measure.tracing import AllocationTracing


@dataclass(frozen=True)
class Resident:
    """What /proc/self/status says, in bytes."""

    anonymous: int
    files: int
    high_water: int


class HostMemory:
    """Resident memory of this process, and its high-water mark since the last `forget`.

    `problem` says why the high-water mark can't be read here, where it can't.
    """

    def __init__(self) -> None:
        self._status = os.open("/proc/self/status", os.O_RDONLY)
        self._statm = os.open("/proc/self/statm", os.O_RDONLY)
        self._page = os.sysconf("SC_PAGE_SIZE")
        self.problem: str | None = None
        try:
            self._clear = os.open("/proc/self/clear_refs", os.O_WRONLY)
            self.forget()
        except OSError as error:
            self.problem = f"the kernel keeps no resettable high-water mark ({error.strerror})"

    def forget(self) -> None:
        """Start the high-water mark anew, from what is resident now."""
        if self.problem is None:
            os.pwrite(self._clear, b"5", 0)

    def anonymous(self) -> int:
        """As `read` has it, for a few microseconds: little enough to stand between two steps."""
        _, resident, shared = os.pread(self._statm, 128, 0).split(b" ", 3)[:3]
        return (int(resident) - int(shared)) * self._page

    def read(self) -> Resident:
        status = os.pread(self._status, 8192, 0)
        return Resident(
            anonymous=_kilobytes(status, b"RssAnon:"),
            files=_kilobytes(status, b"RssFile:") + _kilobytes(status, b"RssShmem:"),
            high_water=_kilobytes(status, b"VmHWM:"),
        )


def _kilobytes(status: bytes, name: bytes) -> int:
    start = status.index(name) + len(name)
    return int(status[start : status.index(b"kB", start)]) * 1024


@dataclass
class TimingMeter:
    """Seconds and host bytes of every phase and step, relative to the trial's start."""

    host: HostMemory
    most_steps: int
    phases: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Of their full length from the first: that they grew would be seen as a leak.
        self._seconds = array("d", bytes(8 * self.most_steps))
        self._resident = array("q", bytes(8 * self.most_steps))
        self._steps = 0
        floor.lower(self.host.anonymous)
        self._baseline = self.host.anonymous()
        self._started = 0.0
        self._before_collection = 0
        self.collected_bytes = 0
        """What Python's collector freed after the last step."""

    @property
    def seconds(self) -> list[float]:
        return self._seconds[: self._steps].tolist()

    @property
    def host_bytes(self) -> list[float]:
        """After each step."""
        return [float(resident) for resident in self._resident[: self._steps]]

    def begin(self, phase: Phase, step: int) -> None:
        if phase is Phase.COLLECTION:
            if self._steps:
                self._close(Phase.STEPS, sum(self.seconds), self.host.read())
            self._baseline += floor.lower(self.host.anonymous).moved_bytes
            self._before_collection = self.host.anonymous()
            return
        if step == 0:  # the high-water mark of the steps is that of all of them
            self.host.forget()
        self._started = time.perf_counter()

    def end(self, phase: Phase, step: int) -> None:
        seconds = time.perf_counter() - self._started
        if phase is Phase.STEPS:
            self._seconds[step] = seconds
            self._resident[step] = self.host.anonymous() - self._baseline
            self._steps = step + 1
            return
        if phase is Phase.COLLECTION:
            # Small blocks that it frees stay resident, but taking them now moves nothing.
            lowered = floor.lower(self.host.anonymous)
            freed = self._before_collection - self.host.anonymous() + lowered.taken_bytes
            self._baseline += lowered.moved_bytes
            self.collected_bytes = max(0, freed)
            return
        self._close(phase, seconds, self.host.read())
        if phase is Phase.FIRST_CALL:  # what building and tracing left free would hide a leak
            self._baseline += floor.lower(self.host.anonymous).moved_bytes

    def _close(self, phase: Phase, seconds: float, resident: Resident) -> None:
        live = resident.anonymous - self._baseline
        peak = max(live, resident.high_water - resident.files - self._baseline)
        self.phases[phase] = {
            "seconds": seconds,
            "host_bytes": live,
            "host_peak_bytes": None if self.host.problem else peak,
        }


@dataclass
class MemoryMeter:
    """Marks every phase and step in the trace of allocations; the replay does the reading."""

    tracing: AllocationTracing

    def begin(self, phase: Phase, step: int) -> None:
        self.tracing.begin(phase, step)

    def end(self, phase: Phase, step: int) -> None:
        self.tracing.end()
        self.tracing.between_steps()
