"""Keeps things in many ways between two looks, and prints what was found: a process of its own,
because a test's has so many objects that a look takes half a minute."""

from __future__ import annotations

import functools
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner import schema
from runner.facts import Container, Survivor
from runner.meters.code_owner import make_relative
from runner.meters.host import function_traces, holders
from runner.meters.host.threads import ThreadMeter

HERE = Path(__file__)
STEPS = 12


class Kept:
    seen: list[object] = []  # noqa: RUF012

    def __init__(self, before: object = None) -> None:
        self.before = before
        self.sizes: dict[str, int] = {}


class Sizes(OrderedDict[str, int]):
    def __len__(self) -> int:
        raise AssertionError("a class of the user's may do what it likes")


def chain_of_objects() -> Any:
    state: dict[str, Any] = {"head": None}

    def link() -> None:
        state["head"] = Kept(state["head"])

    return link


def containers_and_threads() -> Any:
    kept, numbers, sizes, ends = Kept(), iter(range(10**6)), Sizes(), threading.Event()

    @functools.lru_cache(maxsize=10**6)
    def cached(number: int) -> str:
        return str(number)

    def step() -> None:
        Kept.seen.append([])
        kept.sizes[f"{next(numbers)}"] = 1
        cached(next(numbers))
        sizes[f"{next(numbers)}"] = 1
        threading.Thread(target=ends.wait, daemon=True).start()

    return step


def two_lists() -> Any:
    first: list[Any] = []
    second: list[Any] = []

    def step() -> None:
        array = bytearray(1000)  # in both
        first.append(array)
        second.append(array)

    return step


def thread_that_cannot_end() -> Any:
    """Letting go of a key waits for a thread, and a fork has none."""
    kept: list[Any] = []
    asked, answered = threading.Semaphore(0), threading.Semaphore(0)

    def answer() -> None:
        while asked.acquire():
            answered.release()

    class Key:
        def __del__(self) -> None:
            asked.release()
            answered.acquire()

    threading.Thread(target=answer, daemon=True).start()

    def step() -> None:
        kept.append((Key(), bytearray(1000)))  # behind a key

    return step


def connections() -> Any:
    """SQLite takes 14 kB for each past Python's allocator, beside 1 kB of Python's."""
    opened: list[sqlite3.Connection] = []

    def step() -> None:
        opened.append(sqlite3.connect(":memory:"))

    return step


def grows(*texts: str, rate: int = 64) -> list[Survivor]:
    """Lines of this file that leave so many bytes a step, or a thousand where they say so."""
    lines = list(enumerate(HERE.read_text().splitlines(), 1))
    found = []
    for text in texts:
        line = next(number for number, line in lines if text in line)
        sizes = tuple((1000 if "1000" in text else rate) * step for step in range(5))
        found.append(Survivor("python", make_relative(str(HERE)), line, None, "", sizes, (0,) * 5))
    return found


def found(
    step: Any, seen: ThreadMeter, survivors: Sequence[Survivor] = ()
) -> tuple[Container, ...]:
    seen.look()
    looks = holders.HolderSearch()
    looks.begin()
    for _ in range(STEPS):
        step()
    containers, _ = looks.end(STEPS, step, survivors)
    seen.look()
    return containers


def main() -> None:
    function_traces._list_functions = lambda objects: []  # without TensorFlow
    both = containers_and_threads()
    seen, unseen = ThreadMeter(), ThreadMeter()
    seen.mark()
    both()
    seen.mark()
    unseen.mark()
    told = {
        "both": found(both, seen, grows("Kept.seen.append([])", "cached(next(numbers))")),
        "chain": found(chain_of_objects(), unseen, grows("Kept(state")),
        "two": found(two_lists(), unseen, grows("bytearray(1000)  # in both")),
        "opened": found(connections(), unseen, grows("sqlite3.connect", rate=15_000)),
        "waits": found(thread_that_cannot_end(), unseen, grows("bytearray(1000)))  # behind a")),
    }
    threads = {"threads": seen.find_survivors(), "no threads": unseen.find_survivors()}
    print(schema.encode({**told, **threads}).decode(), flush=True)
    os._exit(0)  # threads that never end are part of it


if __name__ == "__main__":
    main()
