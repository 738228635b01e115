"""What each step leaves behind on the host: every allocation, Python's and C++'s, by its stack.

memray writes down all allocations and frees with both stacks. Between two steps Python's garbage is
collected and a mark is set: a moment's pause, in which memray takes one of its snapshots, so that
what is live at every mark can be told, by the place that took it. What lives is counted as malloc
and Python count it, with the header and the rounding of a block, and of what was mapped the pages
that were written to (XLA maps more for its code than it fills): so much the process grows.

A traced step may take ten times as long, and the trace itself takes memory: a host trial is never
timed, and its resident memory is not read.
"""

from __future__ import annotations

import gc
import linecache
import os
import resource
import tempfile
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.trial.measure.stacks import Place, place
from runner.trial.owners import owner

_PAUSE_SECONDS = 0.003
"""To either side of a mark; memray's snapshots are 1 ms apart."""

_MOST_PLACES = 60
"""Are sent with their line; what the smaller ones hold is added up by kind."""


class Survivors:
    """Traces from `start` to `stop`; `mark` after each step, and once before the first."""

    def __init__(self) -> None:
        import memray  # here, so that no other trial holds it

        self._memray = memray
        self._file = Path(tempfile.gettempdir()) / f"host-{os.getpid()}.memray"
        self._tracker: Any = None
        self._marks: list[float] = []

    def start(self) -> None:
        self._tracker = self._memray.Tracker(
            self._file,
            native_traces=True,
            trace_python_allocators=True,
            memory_interval_ms=1,
        )
        self._tracker.__enter__()

    def mark(self) -> None:
        if gc.isenabled():  # who switched it off keeps its garbage
            gc.collect()
        time.sleep(_PAUSE_SECONDS)
        self._marks.append(time.time() * 1000)
        time.sleep(_PAUSE_SECONDS)

    def stop(self) -> None:
        if self._tracker is not None:
            self._tracker.__exit__(None, None, None)
            self._tracker = None

    def read(self) -> list[dict[str, Any]]:
        """The places whose live bytes differ between the first mark and the last, as the record
        keeps them: each with what was live at every mark, above the first."""
        held: dict[Place, _Series] = defaultdict(lambda: _Series(len(self._marks)))
        mapped: dict[Place, _Series] = defaultdict(lambda: _Series(len(self._marks)))
        with self._memray.FileReader(self._file) as reader:
            times = [each.time for each in reader.get_memory_snapshots()]
            marks = [min(bisect_right(times, mark), len(times)) for mark in self._marks]
            for record in reader.get_temporal_allocation_records(merge_threads=True):
                series = _live(record, marks)
                if series is None:
                    continue
                if (found := _place(record)) is not None:
                    (mapped if record.allocator == _MAP else held)[found].add(series)
            written = _written_shares(reader.get_allocation_records()) if mapped else {}
        for where, series in mapped.items():
            held[where].add(series.times(written.get(where, 0.0)))
        self._file.unlink()
        return list(_to_json(held))


def _place(record: Any) -> Place | None:
    native = [name for name, _, _ in record.native_stack_trace(None)]
    return place(record.stack_trace(None), native, record.allocator in _PYTHONS, owner)


def _written_shares(records: Any) -> dict[Place, float]:
    """Of what each place has mapped and not unmapped, how much is resident now."""
    still: dict[int, Any] = {}
    for record in records:
        if record.allocator == _MAP:
            still[record.address] = record
        elif record.allocator == _UNMAP:
            still.pop(record.address, None)
    pages: dict[Place, list[bool]] = defaultdict(list)
    with open("/proc/self/pagemap", "rb") as pagemap:  # noqa: PTH123
        for address, record in still.items():
            if (found := _place(record)) is not None:
                pages[found] += _present(pagemap, address, record.size)
    return {found: sum(present) / len(present) for found, present in pages.items() if present}


def _present(pagemap: Any, address: int, size: int) -> list[bool]:
    """Of each page whether it is resident: the highest bit of its eight bytes."""
    first, last = address // _PAGE, -(-(address + size) // _PAGE)
    pagemap.seek(8 * first)
    return [bool(byte & 0x80) for byte in pagemap.read(8 * (last - first))[7::8]]


_PAGE = resource.getpagesize()
_PYTHONS = (2, 3, 4)
"""memray's numbers for malloc, calloc and realloc of Python's own allocator."""
_MAP, _UNMAP = 14, 15
_SMALL = 512
"""Bytes up to which Python's allocator serves a request from its own arenas."""


class _Series:
    """Bytes and blocks that are live at every mark, above the first."""

    def __init__(self, length: int) -> None:
        self.bytes = [0.0] * length
        self.count = [0] * length

    def add(self, other: _Series) -> None:
        self.bytes = [one + more for one, more in zip(self.bytes, other.bytes, strict=True)]
        self.count = [one + more for one, more in zip(self.count, other.count, strict=True)]

    def times(self, share: float) -> _Series:
        scaled = _Series(len(self.bytes))
        scaled.bytes, scaled.count = [share * value for value in self.bytes], self.count
        return scaled

    @property
    def grown(self) -> float:
        return self.bytes[-1]


def _live(record: Any, marks: list[int]) -> _Series | None:
    """None where as much is live at the last mark as at the first. `marks` are snapshots' numbers;
    an interval's bounds are the numbers of the snapshots that came next."""
    bytes_, count = [0.0] * (len(marks) + 1), [0] * (len(marks) + 1)
    for each in record.intervals:
        size = _taken(each.n_bytes, each.n_allocations, record.allocator)
        for snapshot, sign in (
            (each.allocated_before_snapshot, 1),
            (each.deallocated_before_snapshot, -1),
        ):
            if snapshot is not None:
                at = _first(marks, snapshot)
                bytes_[at] += sign * size
                count[at] += sign * each.n_allocations
    series = _Series(len(marks))
    live_bytes = live_count = 0.0
    for at in range(len(marks)):
        live_bytes += bytes_[at]
        live_count += count[at]
        series.bytes[at], series.count[at] = live_bytes, int(live_count)
    first_bytes, first_count = series.bytes[0], series.count[0]
    series.bytes = [value - first_bytes for value in series.bytes]
    series.count = [value - first_count for value in series.count]
    return series if any(series.bytes) else None


def _first(marks: list[int], snapshot: int) -> int:
    """The first mark at which what happened before that snapshot has happened."""
    low, high = 0, len(marks)
    while low < high:
        middle = (low + high) // 2
        if marks[middle] < snapshot:
            low = middle + 1
        else:
            high = middle
    return low


def _taken(total: int, count: int, allocator: int) -> float:
    """What `count` blocks of `total` bytes take of the process, headers and rounding included."""
    if not count or allocator == _MAP:
        return float(total)
    size = -(-total // count)
    if allocator in _PYTHONS and size <= _SMALL:
        return count * max(16, -(-size // 16) * 16) * _ARENA_SHARE
    return float(count * max(32, -(-(size + 8) // 16) * 16))


_ARENA_SHARE = 16384 / (16384 - 48)
"""A pool of Python's arenas begins with a header."""


def _to_json(held: dict[Place, _Series]) -> Iterator[dict[str, Any]]:
    """The largest by name, and the rest by kind."""
    ranked = sorted(held.items(), key=lambda item: -abs(item[1].grown))
    rest: dict[str, _Series] = {}
    for number, (where, series) in enumerate(ranked):
        if number < _MOST_PLACES:
            yield _one(where, series)
        else:
            rest.setdefault(where.kind, _Series(len(series.bytes))).add(series)
    for kind, series in rest.items():
        yield _one(Place(kind, None, None, "many small places"), series)


def _one(where: Place, series: _Series) -> dict[str, Any]:
    known = where.file is not None and where.line is not None
    code = linecache.getline(where.file or "", where.line or 0).strip() if known else None
    return {
        "kind": where.kind,
        "file": _relative(where.file),
        "line": where.line,
        "code": code or None,
        "what": where.what,
        "bytes": [round(value) for value in series.bytes],
        "count": series.count,
    }


def _relative(file: str | None) -> str | None:
    """To the folder where the user stands, if below it."""
    if file is None:
        return None
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
