"""Find out what goes when something is emptied, without emptying it: in a fork of this process.

    what stays      Python's memory that was taken since `tracemalloc` was started, by the user's
                    line that took it, and what malloc has in use beside it
    in a fork       that is read, then read again in another one that first cut something: what
                    went between the two is what the cut thing alone has held

The program goes on as if nothing had been tried. A fork has none of the threads of its parent:
where freeing waits for one of them, or crashes, nothing is known. Child side.
"""

from __future__ import annotations

import _tracemalloc
import gc
import os
import pickle
import tracemalloc
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from runner.meters.code_owner import RUNNER, SCENARIO, USERS, find_owner, make_relative
from runner.meters.host import malloc, mappings
from runner.processes import process_tree

Line = tuple[str, int]
Cut = Callable[[], object]
"""What it returns stays."""

_SMALL = 512
"""Bytes up to which a block of Python's is none of malloc's."""
_LOOK_SECONDS, _LOOKS = 0.25, 8
"""A fork that sleeps whenever it is looked at, so many times in a row, waits for ever: it has
nothing to wait for. One that is slow, on a busy machine, does not sleep."""


@dataclass(frozen=True)
class Kept:
    """The memory that stays: bytes by line, and those of C++."""

    lines: dict[Line, int]
    native: int
    """Above what a fork begins with."""

    @property
    def total(self) -> int:
        """Return all of it, in bytes."""
        return self.native + sum(self.lines.values())


def measure_without(cuts: Iterable[Cut], collects: bool = True) -> Kept | None:
    """Return what stays when these are cut, garbage too unless it `collects`; None where that can't
    be found out."""
    reader, writer = os.pipe()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there are threads: see above
            pid = os.fork()
    except OSError:  # there may be no room for one more
        os.close(reader)
        os.close(writer)
        return None
    if pid == 0:
        try:
            _answer(writer, cuts, collects)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        answer = _read_answer(reader, pid)
        return pickle.loads(answer) if answer else None
    finally:
        os.close(reader)
        process_tree.kill_all([pid])
        with suppress(ChildProcessError):  # the user's code may wait for any child
            os.waitpid(pid, 0)


def _answer(writer: int, cuts: Iterable[Cut], collects: bool) -> None:
    process_tree.die_with_parent()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    began = _read_in_use()
    stay = [cut() for cut in cuts]
    if collects:
        gc.set_debug(0)
        gc.collect()
    answer = pickle.dumps(_read_kept(_read_in_use() - began))
    while answer:
        answer = answer[os.write(writer, answer) :]
    del stay


def _read_answer(reader: int, pid: int) -> bytes:
    """Return all that the fork writes; nothing where it waits for ever."""
    asleep, parts = 0, list[bytes]()
    while asleep < _LOOKS:
        if process_tree.is_readable(reader, _LOOK_SECONDS):
            if not (part := os.read(reader, 2**16)):
                return b"".join(parts)
            parts.append(part)
        asleep = asleep + 1 if process_tree.read_state(pid) == "S" else 0
    return b""


def _read_in_use() -> int:
    """Return what malloc has in use, without the tables of `tracemalloc`, and what is shared."""
    shared = mappings.measure_shared()  # its pages are not in a fork, so its size has to do
    if malloc.info is None:
        return shared
    return shared + malloc.info().in_use_bytes - tracemalloc.get_tracemalloc_memory()


def _read_kept(in_use: int) -> Kept:
    lines: dict[Line, int] = defaultdict(int)
    known: dict[int, Line | None] = {}
    traces = _tracemalloc._get_traces()
    for _, size, stack, *_ in traces:
        if id(stack) not in known:  # the same stack is the same tuple in all of them
            known[id(stack)] = find_users_line(stack)
        if size > _SMALL:
            in_use -= size
        if (line := known[id(stack)]) is not None:
            lines[line] += size
    return Kept(dict(lines), in_use)


def find_users_line(stack: Iterable[Line]) -> Line | None:
    """Return the innermost line of the user's, else of a scenario; None for what the runner took
    itself, in the midst of the user's code. `stack` has the innermost line first."""
    of_scenario = None
    for file, line in stack:
        owner = find_owner(file)
        if owner == USERS:
            return make_relative(file), line
        if owner == RUNNER:
            break
        if owner == SCENARIO and of_scenario is None:
            of_scenario = make_relative(file), line
    return of_scenario


def find_birth(value: object) -> Line | None:
    """Return the user's line that made an object since `tracemalloc` was started."""
    trace = _tracemalloc._get_object_traceback(value)
    return _find_users_line(trace) if trace else None


# Thousands of objects are asked for, which a few stacks of up to a hundred lines have made.
_find_users_line = lru_cache(maxsize=4096)(find_users_line)
