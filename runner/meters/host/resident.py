"""Read the kernel's account of this process: anonymous resident memory, and its high-water mark.

Anonymous is what the kernel can't drop: `RssAnon`, shared memory (`RssShmem`), and the pages of
mapped files that were written to (`mappings`). Pages of libraries that TensorFlow maps in can be
dropped, and are not the user's memory. The peak comes from the kernel's high-water mark
(`VmHWM`, set back by a 5 in /proc/self/clear_refs), which misses nothing; it covers mapped files
too, so their share at the end of the span is taken off.

Each CPU counts the pages that a process takes there for itself and hands them in 32 at a time
(`percpu_counter_batch` in lib/percpu_counter.c: 32, or two for each CPU there is), and the mark is
taken from what was handed in. What lay in a mapping for a moment (a large array, but no small one:
malloc keeps its pages) may be off by 32 pages a CPU. So:

    resident pages           ________           what the process takes and gives back
    handed in, the mark     _/      \\_           up to 32 pages lower, and later
    + ballast             ============          held over each span, and let go before the mark is
                                                read: else it would hide below what is resident
    + start                 ==  ====  =         where this CPU's count begins: differs from process
                                                to process, and half of the 32 is added, so that the
                                                median over processes is off by less than a page
    + push                  |                   taken and dropped: this CPU hands in all it counted

What the other CPUs have not handed in is read off a peak of known size, after the span: whoever was
moved to another CPU has left it behind there. No more is added than there were page faults: each
makes a page resident, or none.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner.meters.host import mappings
from runner.processes.descriptors import open_out_of_reach

_POPULATE = 23
"""MADV_POPULATE_WRITE: pages that are resident at once, which Python has no name for."""

_LEAST_LOOK_BYTES = 32_768
"""Pages of files that must have become resident before it is asked again if they were written to:
that takes milliseconds. Each time that they were not, twice as many."""
_LOOK_SHARE = 1 / 32
"""Of the pages that were written to: by less it is not asked again."""

_STARTS = (1 / 2, 5 / 6, 1 / 6)
"""Where the count begins, process by process, as a share of what a CPU hands in at once."""


@dataclass(frozen=True)
class Resident:
    """One reading of /proc/self/status, in bytes."""

    anonymous: int
    files: int
    high_water: int


class HostMemory:
    """Resident memory of this process, and its high-water mark since the last `forget`."""

    def __init__(self, number: int = 0) -> None:
        """Take the process's `number` among those that are measured alike."""
        self._status = open_out_of_reach("/proc/self/status", os.O_RDONLY)
        self._statm = open_out_of_reach("/proc/self/statm", os.O_RDONLY)
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
        self._shared_pages = self._shared_memory = 0
        """Those that are not `RssAnon`, when last read; and the bytes of them that are counted."""
        self._looked_at, self._look_after = 0, _LEAST_LOOK_BYTES
        self._written = 0
        """The bytes of files that were written to, when `RssFile` was `_looked_at`."""
        self.problem: str | None = None
        """Why the high-water mark can't be read here, where it can't."""
        try:
            self._clear = open_out_of_reach("/proc/self/clear_refs", os.O_WRONLY)
            opened.append(self._clear)
            self._clear_mark()
        except OSError as error:
            self.problem = f"the kernel keeps no resettable high-water mark ({error.strerror})"
        for each in opened:  # a program that trains often has one each time
            weakref.finalize(self, os.close, each)

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
        """Return the most anonymous bytes since the last `forget`, `resident` having just been
        read."""
        if self.problem is not None:
            return resident.anonymous
        faults = self._page_faults() - self._faults
        held = self._held_bytes
        self._ballast.drop()
        mark = self.read().high_water - held - resident.files + self._read_other_cpus()
        if mark <= resident.anonymous:
            return resident.anonymous
        half = (self._hands_in - 1) // 2 * self._page
        at_most = self._resident + faults * self._page
        if at_most < mark:  # a fault for more than one page: huge ones
            return mark + half
        return max(resident.anonymous, min(mark + half, at_most))

    def _read_other_cpus(self) -> int:
        """Return what they have counted and not handed in: what a peak of known size lacks. This
        CPU has handed in all, for it just let go of pages."""
        self._clear_mark()
        before = self.read()
        self._ballast.take()
        self._ballast.drop()
        risen = self.read().high_water - before.anonymous - before.files - self._held_bytes
        return self._ballast.bytes - risen if risen > 0 else 0

    def anonymous(self) -> int:
        """Return what `read` says of it, in a few microseconds: it may stand between two steps."""
        _, resident, shared = map(int, os.pread(self._statm, 128, 0).split(b" ", 3)[:3])
        if shared != self._shared_pages:  # seldom, and reading which takes longer
            status = os.pread(self._status, 8192, 0)
            self._shared_pages = shared
            self._shared_memory = _parse_field(status, b"RssShmem:") + self._read_written(status)
        return (resident - shared) * self._page + self._shared_memory - self._held_bytes

    def read(self) -> Resident:
        """Return what /proc/self/status says, without the pages that this meter holds."""
        status = os.pread(self._status, 8192, 0)
        shared, written = _parse_field(status, b"RssShmem:"), self._read_written(status)
        return Resident(
            anonymous=_parse_field(status, b"RssAnon:") + shared + written - self._held_bytes,
            files=_parse_field(status, b"RssFile:") - written,
            high_water=_parse_field(status, b"VmHWM:"),
        )

    def _read_written(self, status: bytes) -> int:
        """Return the bytes of mapped files that were written to, as they were when `RssFile` last
        differed by enough."""
        files = _parse_field(status, b"RssFile:")
        if abs(files - self._looked_at) >= self._look_after:
            shared = mappings.list_shared()
            written = sum(mapping.taken_bytes for mapping in shared if mapping.is_file)
            is_same = written == self._written
            least = round(max(_LEAST_LOOK_BYTES, _LOOK_SHARE * written))
            self._look_after = 2 * self._look_after if is_same else least
            self._looked_at, self._written = files, written
        return min(self._written, files)

    @property
    def _held_bytes(self) -> int:
        return self._ballast.held_bytes + self._start.held_bytes

    @staticmethod
    def _page_faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def _clear_mark(self) -> None:
        os.pwrite(self._clear, b"5", 0)


def read_anonymous(pid: int) -> int:
    """Return the anonymous resident bytes of another process; 0 once it has gone."""
    with suppress(OSError, ValueError):
        return read_field(f"/proc/{pid}/status", b"RssAnon:")
    return 0


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


def _parse_field(status: bytes, name: bytes) -> int:
    start = status.index(name) + len(name)
    return int(status[start : status.index(b"kB", start)]) * 1024


def read_field(path: str, name: bytes) -> int:
    """Return the bytes that a file of the kernel's says under a name (`VmData:`)."""
    return _parse_field(Path(path).read_bytes(), name)


def read_room_bytes() -> int:
    """Return what this process may still take of the machine's memory, under its own limit."""
    room = read_field("/proc/meminfo", b"MemAvailable:")
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit != resource.RLIM_INFINITY:
        room = min(room, limit - read_field("/proc/self/status", b"VmData:"))
    return max(room, 0)
