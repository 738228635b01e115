"""Read what the process shares through memory: files that it writes to, and shared memory.

    mmap of a file, written to (np.memmap)         RssFile: the pages that wait to be written to the
                                                   disk are counted, which the kernel can't drop
    mmap(-1), multiprocessing's shared memory,     RssShmem
    a file on tmpfs

Only mappings that are shared and can be written to have either: a private one's pages are anonymous
once they are written to. Child side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from runner.facts import SharedMapping

_SHARED = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) .w.s \S+ (\w+):(\w+) \d+ *(.*)")
_ANY = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ ")
_OF_THE_KERNEL = re.compile(r"/dev/zero|/memfd:|/SYSV")
"""Names of shared memory that lies on no mounted tmpfs."""
_BUFFER_BYTES = 8192
"""glibc maps blocks of 128 kB by themselves, until it has seen one freed: a file that was read at
once would change how the program's own blocks are taken."""


class Mapping(NamedTuple):
    """A shared mapping that can be written to."""

    begin: int
    end: int
    name: str
    is_file: bool
    """Of a disk; else shared memory."""
    taken_bytes: int
    """Resident; of a file, only what was written to and is not yet on the disk."""


def list_shared() -> list[Mapping]:
    """Return the shared mappings that can be written to."""
    if not any(_SHARED.match(line) for line in _read_lines("/proc/self/maps")):
        return []  # a tenth of the time: pages are not looked at
    in_memory = set(_list_memory_devices())
    mappings: list[Mapping] = []
    is_shared = False
    for line in _read_lines("/proc/self/smaps"):
        if _ANY.match(line):
            if shared := _SHARED.match(line):
                begin, end, *device = (int(number, 16) for number in shared.groups()[:4])
                name = shared[5].decode(errors="replace").removesuffix(" (deleted)")
                is_file = tuple(device) not in in_memory and not _OF_THE_KERNEL.match(name)
                mappings.append(Mapping(begin, end, name, is_file, 0))
            is_shared = shared is not None
        elif is_shared:
            field, size = line.split()[:2]
            last = mappings[-1]
            if field in ((b"Shared_Dirty:", b"Private_Dirty:") if last.is_file else (b"Rss:",)):
                mappings[-1] = last._replace(taken_bytes=last.taken_bytes + 1024 * int(size))
    return mappings


def measure_shared() -> int:
    """Return the bytes of all shared mappings that can be written to, resident or not."""
    shared = filter(None, map(_SHARED.match, _read_lines("/proc/self/maps")))
    return sum(int(mapping[2], 16) - int(mapping[1], 16) for mapping in shared)


def _read_lines(path: str) -> Iterator[bytes]:
    # Not the built-in `open`: a program may have replaced it.
    with Path(path).open("rb", buffering=_BUFFER_BYTES) as lines:
        yield from lines


def _list_memory_devices() -> Iterator[tuple[int, int]]:
    """Yield the devices, major and minor number, of which the files lie in memory."""
    for line in _read_lines("/proc/self/mountinfo"):
        mounted, _, kind = line.partition(b" - ")
        if kind.startswith((b"tmpfs ", b"devtmpfs ")):
            major, _, minor = mounted.split()[2].partition(b":")
            yield int(major), int(minor)


class MappingMeter:
    """`mark` before the first step and after each; `list_growing` at the end. Only mappings that
    were there at the first mark: the tracer of allocations knows who makes one later."""

    def __init__(self) -> None:
        self._marks: list[dict[tuple[int, str, bool], int]] = []

    def mark(self) -> None:
        if self._marks and not self._marks[0]:
            return
        taken = {}
        for mapping in list_shared():
            taken[mapping.begin, mapping.name, mapping.is_file] = mapping.taken_bytes
        self._marks.append(taken)

    def list_growing(self) -> tuple[SharedMapping, ...]:
        """Return those that hold more than at the first mark, added up by name."""
        series: dict[tuple[str, bool], list[int]] = {}
        for key, before in self._marks[0].items():
            taken = [mark.get(key, before) - before for mark in self._marks]
            total = series.setdefault(key[1:], [0] * len(taken))
            series[key[1:]] = [sum(pair) for pair in zip(total, taken, strict=True)]
        return tuple(
            SharedMapping(name, is_file, tuple(taken))
            for (name, is_file), taken in series.items()
            if taken[-1] > 0
        )
