"""The meters that the phase loop is given: one for timing trials, one for memory trials.

A timing trial reads the clock and the kernel's account of the process, and nothing else. Host
memory is anonymous resident memory (`RssAnon`): pages of libraries that TensorFlow maps in are the
kernel's to drop, and not the user's memory. The peak comes from the kernel's high-water mark, which
misses nothing; it covers mapped files too, so their share at the end of the span is taken off.

Each CPU counts the pages that a process takes there for itself, and hands them in 32 at a time, and
the mark is taken from what was handed in: what lay in a mapping for a moment (a large array, but no
small one: malloc keeps its pages) may be off by 32 pages a CPU. So three things are done:

- Pages of a known size are held over each span, and let go before the mark is read: else it would
  be hidden below what is resident.
- What the other CPUs have not handed in is read off a peak of known size, after the span: whoever
  was moved to another CPU has left it behind there.
- Where this CPU's count begins is set, and differs from process to process: of the 32 pages that
  are not known, half is added, and the median over processes is off by less than one of them. No
  more is added than there were page faults: each makes a page resident, or none.

(On more than 16 CPUs it is more than 32: two pages for each CPU that there is.)
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import time
import weakref
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from runner.records import Phase
from runner.trial.measure import floor, malloc
from runner.trial.measure.tracing import AllocationTracing

_LOOKED_AT = 4
"""Of the steps, that many have a high-water mark each: that of all the others comes after mapped
files have taken pages, too, and these would cover a small peak."""

_POPULATE = 23
"""MADV_POPULATE_WRITE: pages that are resident at once, which Python has no name for."""

_STARTS = (1 / 2, 5 / 6, 1 / 6)
"""Of what a CPU hands in at once: where the count begins, process by process."""


@dataclass(frozen=True)
class Resident:
    """What /proc/self/status says, in bytes."""

    anonymous: int
    files: int
    high_water: int


class HostMemory:
    """Resident memory of this process, and its high-water mark since the last `forget`.

    `problem` says why the high-water mark can't be read here, where it can't. `number` is that of
    the process among those that are measured alike.
    """

    def __init__(self, number: int = 0) -> None:
        self._status = os.open("/proc/self/status", os.O_RDONLY)
        self._statm = os.open("/proc/self/statm", os.O_RDONLY)
        opened = [self._status, self._statm]
        self._page = os.sysconf("SC_PAGE_SIZE")
        cpus = os.cpu_count() or 1
        self._hands_in = max(32, 2 * cpus)
        # More than the other CPUs may keep back, of the pages of files, too: else it can't be told.
        self._ballast = _Pages(max(4 * self._hands_in, min(cpus * self._hands_in, 256)))
        self._push = _Pages(2 * self._hands_in)
        self._start = _Pages(round(_STARTS[number % len(_STARTS)] * self._hands_in))
        self._resident = self._faults = 0
        """When the mark was last forgotten."""
        self.problem: str | None = None
        try:
            self._clear = os.open("/proc/self/clear_refs", os.O_WRONLY)
            opened.append(self._clear)
            self._clear_mark()
        except OSError as error:
            self.problem = f"the kernel keeps no resettable high-water mark ({error.strerror})"
        weakref.finalize(self, _close, opened)  # a program that trains often has one each time

    def forget(self) -> None:
        """Start the high-water mark anew, from what is resident now."""
        if self.problem is not None:
            return
        self._start.drop()
        self._ballast.drop()
        self._push.take()
        self._push.drop()  # at once, so that this CPU hands in all that it has counted
        self._ballast.take()
        self._start.take()
        self._resident, self._faults = self.anonymous(), self._page_faults()
        self._clear_mark()

    def peak(self, resident: Resident) -> int:
        """The most anonymous bytes since the last `forget`, `resident` having just been read."""
        if self.problem is not None:
            return resident.anonymous
        faults = self._page_faults() - self._faults
        held = self._held_bytes
        self._ballast.drop()
        mark = self.read().high_water - held - resident.files + self._of_other_cpus()
        if mark <= resident.anonymous:
            return resident.anonymous
        half = (self._hands_in - 1) // 2 * self._page
        at_most = self._resident + faults * self._page
        if at_most < mark:  # a fault for more than one page: huge ones
            return mark + half
        return max(resident.anonymous, min(mark + half, at_most))

    def _of_other_cpus(self) -> int:
        """What they have counted and not handed in; this one has, for it just let go of pages."""
        self._clear_mark()
        before = self.read()
        self._ballast.take()
        self._ballast.drop()
        risen = self.read().high_water - before.anonymous - before.files - self._held_bytes
        return self._ballast.bytes - risen if risen > 0 else 0

    def anonymous(self) -> int:
        """As `read` has it, for a few microseconds: little enough to stand between two steps."""
        _, resident, shared = os.pread(self._statm, 128, 0).split(b" ", 3)[:3]
        return (int(resident) - int(shared)) * self._page - self._held_bytes

    def read(self) -> Resident:
        status = os.pread(self._status, 8192, 0)
        return Resident(
            anonymous=_kilobytes(status, b"RssAnon:") - self._held_bytes,
            files=_kilobytes(status, b"RssFile:") + _kilobytes(status, b"RssShmem:"),
            high_water=_kilobytes(status, b"VmHWM:"),
        )

    @property
    def _held_bytes(self) -> int:
        return self._ballast.held_bytes + self._start.held_bytes

    @staticmethod
    def _page_faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def _clear_mark(self) -> None:
        os.pwrite(self._clear, b"5", 0)


def _close(descriptors: Sequence[int]) -> None:
    for each in descriptors:
        os.close(each)


class _Pages:
    """Pages that can be made resident and not, in one table of the kernel's: a table is counted at
    once."""

    def __init__(self, count: int) -> None:
        self._page = os.sysconf("SC_PAGE_SIZE")
        self.bytes = count * self._page
        self.held_bytes = 0
        self._map = mmap.mmap(-1, 2 * self.bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a kernel without huge pages needn't be told
            self._map.madvise(mmap.MADV_NOHUGEPAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        a_table = self._page * self._page // 8  # one of 8 bytes a page, and it fills a page
        fits = address // a_table == (address + self.bytes - 1) // a_table
        self._first = 0 if fits else self.bytes

    def take(self) -> None:
        try:
            self._map.madvise(_POPULATE, self._first, self.bytes)
        except OSError:  # Linux before 5.14: a page fault for each
            for offset in range(self._first, self._first + self.bytes, self._page):
                self._map[offset] = 1
        self.held_bytes = self.bytes

    def drop(self) -> None:
        self.held_bytes = 0
        self._map.madvise(mmap.MADV_DONTNEED, self._first, self.bytes)


def _kilobytes(status: bytes, name: bytes) -> int:
    start = status.index(name) + len(name)
    return int(status[start : status.index(b"kB", start)]) * 1024


@dataclass
class TimingMeter:
    """Seconds and host bytes of every phase and step, relative to the trial's start."""

    host: HostMemory
    books: malloc.Books
    most_steps: int
    phases: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Of their full length from the first: that they grew would be seen as a leak.
        self._seconds = array("d", bytes(8 * self.most_steps))
        self._resident = array("q", bytes(8 * self.most_steps))
        self._steps = 0
        self._baseline = 0
        self._lower()
        self._baseline = self.host.anonymous()
        self._reached = 0
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
            self._lower()
            self._before_collection = self.host.anonymous()
            self.books.begin_collection()
            return
        if step < _LOOKED_AT:
            self.host.forget()
        self._started = time.perf_counter()

    def end(self, phase: Phase, step: int) -> None:
        seconds = time.perf_counter() - self._started
        if phase is Phase.STEPS:
            self._seconds[step] = seconds
            self._resident[step] = self.host.anonymous() - self._baseline
            self._steps = step + 1
            if step < _LOOKED_AT - 1:
                self._note_peak()
            return
        if phase is Phase.COLLECTION:
            self.books.end_collection()
            # Small blocks that it frees stay resident, but taking them now moves nothing.
            taken = self._lower()
            freed = self._before_collection - self.host.anonymous() + taken
            self.collected_bytes = max(0, freed)
            return
        self._close(phase, seconds, self.host.read())
        if phase is not Phase.RELEASE:  # what it left free would hide a peak, or a leak
            self._lower()
            self.phases[phase]["host_bytes"] = self.host.anonymous() - self._baseline

    def _lower(self) -> int:
        """The floor, and below it what a look of the meter's own takes; bytes that were taken."""
        lowered = floor.lower(self.host.anonymous)
        before = self.host.anonymous()
        self.host.forget()
        self.host.peak(self.host.read())
        self._baseline += lowered.moved_bytes + self.host.anonymous() - before
        return lowered.taken_bytes

    def pause(self) -> None:
        """What comes until `resume` is not the trial's memory."""
        self._note_peak()

    def resume(self) -> None:
        malloc.trim()
        self.host.forget()

    def _note_peak(self) -> None:
        self._reached = max(self._reached, self.host.peak(self.host.read()))

    def _close(self, phase: Phase, seconds: float, resident: Resident) -> None:
        peak = max(self._reached, self.host.peak(resident))
        self._reached = 0
        self.phases[phase] = {
            "seconds": seconds,
            "host_bytes": resident.anonymous - self._baseline,
            "host_peak_bytes": None if self.host.problem else peak - self._baseline,
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
