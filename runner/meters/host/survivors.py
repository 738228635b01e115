"""Find what each step leaves behind on the host: all allocations, Python's and C++'s, by stack.

memray writes down all allocations and frees with both stacks. Between two steps Python's garbage is
collected and a mark is set: a moment's pause, in which memray takes one of its snapshots, so that
what is live at every mark can be told, by the place that took it.

    snapshots   |  |  |  |  |  |  |  |  |  |      1 ms apart
    marks             m        m        m         a snapshot or more in the quiet after each
    a block        [--------)                     live at the first mark, and at no other
    a block                 [--------------       live at the last two: it survived

memray's thread takes the snapshots, and on a busy machine it may wait for its turn: so does a mark.

What lives is counted as malloc and Python count it, with the header and the rounding of a block,
and of what was mapped the pages that were written to (XLA maps more for its code than it fills): so
much the process grows. A traced step may take ten times as long, and the trace itself takes memory:
a host trial is never timed, and its resident memory is not read.
"""

from __future__ import annotations

import linecache
import math
import os
import resource
import tempfile
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.errors import RunnerError
from runner.facts import SharedMapping, Survivor
from runner.meters import collector
from runner.meters.clock import Clock
from runner.meters.code_owner import make_relative
from runner.meters.host import mappings
from runner.meters.host.mappings import Mapping
from runner.meters.host.stacks import Place, find_place

_PAUSE_SECONDS, _SLEEPS, _MOST_SECONDS = 0.002, 4, 10.0
"""A pause, how often memray's thread goes to sleep before it has surely taken a snapshot, and how
long that is waited for."""

_MOST_PLACES = 60
"""Are sent with their line; what the smaller ones hold is added up by kind."""

_PAGE = resource.getpagesize()
_PYTHONS = (2, 3, 4)
"""memray's numbers for malloc, calloc and realloc of Python's own allocator."""
_MAP = 14
_GIVE_BACK = (1, 5, 15)
"""Python's free, malloc's, and `munmap`."""
_LARGE = 32_768
"""Bytes of a block of malloc's from which on its pages are asked for: zlib takes 268 kB for an
object and writes to 88 of them, and NumPy's zeros are written to by nobody."""
_TELLING = 2**20
"""Bytes that blocks of one size have risen by, from which on that is worth a second reading."""
_SMALL = 512
"""Bytes up to which Python's allocator serves a request from its own arenas."""
_POOL, _POOL_HEADER = 16384, 48
"""Bytes of a pool in such an arena, and of its header."""

Series = NDArray[np.float64]
"""Two rows, bytes and blocks that are live, with a column a mark: above those at the first."""


class SurvivorMeter:
    """Traces from `start` to `stop`; `mark` after each step, and once before the first."""

    def __init__(self) -> None:
        import memray  # here, so that no other trial holds it

        self._memray = memray
        self._file = Path(tempfile.gettempdir()) / f"host-{os.getpid()}.memray"
        self._marks: list[tuple[float, float]] = []
        """Each with the end of the quiet after it, in milliseconds as memray's snapshots."""
        self._threads = set[str]()

    def start(self) -> None:
        others = set(os.listdir("/proc/self/task"))  # noqa: PTH208
        self._tracker = self._memray.Tracker(
            self._file, native_traces=True, trace_python_allocators=True, memory_interval_ms=1
        )
        self._tracker.__enter__()
        self._threads = set(os.listdir("/proc/self/task")) - others  # noqa: PTH208

    def mark(self) -> None:
        collector.collect()
        Clock.sleep(_PAUSE_SECONDS)  # for other threads, which may be about to free something
        at = Clock.epoch_seconds()
        self._await_snapshot()
        self._marks.append((at * 1000, Clock.epoch_seconds() * 1000))

    def _await_snapshot(self) -> None:
        """Pause until memray has taken a snapshot, a millisecond from now or later, as its clock
        has no less; between two sleeps its thread takes one, or waits for a lock or the disk."""
        Clock.sleep(_PAUSE_SECONDS)
        enough, give_up = self._count_sleeps() + _SLEEPS, Clock.seconds() + _MOST_SECONDS
        while self._count_sleeps() < enough and Clock.seconds() < give_up:
            Clock.sleep(_PAUSE_SECONDS)

    def _count_sleeps(self) -> float:
        """Return how often memray's thread has gone to sleep; infinity where nobody can tell."""
        for thread in self._threads:
            with suppress(OSError):
                file = os.open(f"/proc/self/task/{thread}/status", os.O_RDONLY)
                try:
                    status = os.read(file, 8192)
                finally:
                    os.close(file)
                return float(status.partition(b"\nvoluntary_ctxt_switches:")[2].split()[0])
        return math.inf

    def stop(self) -> None:
        self._tracker.__exit__(None, None, None)

    def read(self) -> list[Survivor]:
        """Return the places whose live bytes differ between the first mark and the last, as the
        record keeps them: each with what was live at every mark."""
        nothing = np.zeros((2, len(self._marks)))
        held: dict[Place, Series] = defaultdict(nothing.copy)
        large: dict[tuple[Place, int], Series] = defaultdict(nothing.copy)
        mapped: dict[tuple[Place, int], Series] = defaultdict(nothing.copy)
        with self._memray.FileReader(self._file) as reader:
            times = [each.time for each in reader.get_memory_snapshots()]
            marks = find_snapshots(times, self._marks)
            for record in reader.get_temporal_allocation_records(merge_threads=True):
                series = _count_live(record, marks)
                if series[0].any() and (place := _find_place(record)) is not None:
                    if record.allocator == _MAP:
                        mapped[place, _round_to_pages(record)] += series
                    elif (size := _find_size(record)) >= _LARGE and place.kind != "tensor":
                        large[place, size] += series
                    else:
                        held[place] += series
            is_telling = any(series[0, -1] >= _TELLING for series in large.values())
            records = reader.get_allocation_records() if mapped or is_telling else ()
            written, written_of_size = _find_written_shares(records)
        shared = _group_by_size(mappings.list_shared()) if mapped else {}
        for (place, size), series in mapped.items():
            share = written.get(place, 0.0)
            if size in shared:
                share = sum(mapping.taken_bytes for mapping in shared[size])
                share /= size * len(shared[size])
                place = replace(place, kind="native", what=_describe_shared(shared[size]))
            held[place] += [share * series[0], series[1]]
        for (place, size), series in large.items():
            held[place] += [written_of_size.get(size, 1.0) * series[0], series[1]]
        self._file.unlink()
        return list(_rank(held))


def find_snapshots(times: list[float], marks: list[tuple[float, float]]) -> list[int]:
    """Return the number of each mark's snapshot: the first one after it, in the quiet. Without one,
    the blocks of a step would be counted at the mark before or at the next."""
    found = [bisect_right(times, at) for at, _ in marks]
    if any(
        number == len(times) or times[number] > until
        for number, (_, until) in zip(found, marks, strict=True)
    ):
        raise RunnerError(
            "this machine is so busy that memray's thread took no snapshot between two steps.",
            "Run it again when less else is running.",
        )
    return found


def _find_place(record: Any) -> Place | None:
    native = [name for name, _, _ in record.native_stack_trace(None)]
    python = record.stack_trace(None)
    return find_place(python, native, record.allocator in _PYTHONS)


def _count_live(record: Any, marks: list[int]) -> Series:
    """Return what is live at each mark above the first. `marks` are snapshots' numbers; so are an
    interval's bounds: those of the snapshots that came next."""
    changes = np.zeros((2, len(marks) + 1))
    for each in record.intervals:
        size = _count_taken(each.n_bytes, each.n_allocations, record.allocator)
        begin, end = each.allocated_before_snapshot, each.deallocated_before_snapshot
        for snapshot, sign in ((begin, 1), (end, -1)):
            if snapshot is not None:
                changes[:, bisect_left(marks, snapshot)] += sign * size, sign * each.n_allocations
    live: Series = changes.cumsum(axis=1)[:, :-1]
    return live - live[:, :1]


def _count_taken(total: int, count: int, allocator: int) -> float:
    """Return what `count` blocks of `total` bytes take of the process, headers and rounding
    included: multiples of 16, from 32 on with 8 bytes of header in glibc's malloc, and of pools
    with a header in Python's."""
    if not count or allocator == _MAP:
        return float(total)
    size = -(-total // count)
    if allocator in _PYTHONS and size <= _SMALL:
        return count * max(16, -(-size // 16) * 16) * (_POOL / (_POOL - _POOL_HEADER))
    return float(count * max(32, -(-(size + 8) // 16) * 16))


def _find_written_shares(records: Iterable[Any]) -> tuple[dict[Place, float], dict[int, float]]:
    """Return how much is resident now of what was not given back: of each place's mappings, and of
    malloc's large blocks by their size."""
    still: dict[int, Any] = {}
    for record in records:
        if record.allocator in _GIVE_BACK:
            still.pop(record.address, None)
        elif record.allocator == _MAP or record.size >= _LARGE:
            still[record.address] = record
    pages: dict[Place | int, list[bool]] = defaultdict(list)
    with open("/proc/self/pagemap", "rb") as pagemap:  # noqa: PTH123
        for address, record in still.items():
            of = _find_place(record) if record.allocator == _MAP else record.size
            if of is not None:
                first, last = address // _PAGE, -(-(address + record.size) // _PAGE)
                pagemap.seek(8 * first)  # 8 bytes a page, the highest bit says whether it is there
                flags = pagemap.read(8 * (last - first))[7::8]
                pages[of] += [bool(byte & 0x80) for byte in flags]
    shares = {of: sum(present) / len(present) for of, present in pages.items() if present}
    of_places = {of: share for of, share in shares.items() if isinstance(of, Place)}
    return of_places, {of: share for of, share in shares.items() if isinstance(of, int)}


def _find_size(record: Any) -> int:
    """Return the bytes of each block of a record."""
    first = record.intervals[0]
    return int(first.n_bytes // first.n_allocations)


def _round_to_pages(record: Any) -> int:
    return -(-_find_size(record) // _PAGE) * _PAGE


def _group_by_size(shared: Iterable[Mapping]) -> dict[int, list[Mapping]]:
    """Return the shared mappings by their size: memray tells a mapping's line by its size alone,
    since the stacks of its records with an address lack the outer frames."""
    grouped: dict[int, list[Mapping]] = defaultdict(list)
    for mapping in shared:
        grouped[mapping.end - mapping.begin].append(mapping)
    return grouped


def _describe_shared(shared: Sequence[Mapping]) -> str:
    """Return what mappings are: the last one of them, and how many more."""
    more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
    last = max(shared, key=lambda mapping: mapping.name)
    return SharedMapping(f"{make_relative(last.name)}{more}", last.is_file).what


def _rank(held: dict[Place, Series]) -> Iterator[Survivor]:
    """Yield the largest by name, and the rest by kind."""
    ranked = sorted(held.items(), key=lambda item: -abs(item[1][0, -1]))
    rest: dict[str, Series] = {}
    for place, series in ranked[_MOST_PLACES:]:
        rest[place.kind] = series + rest.get(place.kind, 0.0)
    small = [(Place(kind, None, None, "many small places"), its) for kind, its in rest.items()]
    for place, series in [*ranked[:_MOST_PLACES], *small]:
        known = place.file is not None and place.line is not None
        code = linecache.getline(place.file or "", place.line or 0).strip() if known else None
        yield Survivor(
            kind=place.kind,
            file=place.file and make_relative(place.file),
            line=place.line,
            code=code or None,
            what=place.what,
            bytes=tuple(round(value) for value in series[0].tolist()),
            count=tuple(int(value) for value in series[1].tolist()),
        )
