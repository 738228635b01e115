"""Keeps things in many ways between two looks, and prints what was found: a process of its own,
because a test's has so many objects that a look takes half a minute."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from typing import Any

from runner import schema
from runner.facts import Container
from runner.meters.host import function_traces, holders
from runner.meters.host.threads import ThreadMeter

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


def found(step: Any, seen: ThreadMeter) -> tuple[Container, ...]:
    seen.look()
    looks = holders.HolderSearch()
    looks.begin()
    for _ in range(STEPS):
        step()
    containers, _ = looks.end(STEPS, step)
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
    told = {"both": found(both, seen), "chain": found(chain_of_objects(), unseen)}
    threads = {"threads": seen.find_survivors(), "no threads": unseen.find_survivors()}
    print(schema.encode({**told, **threads}).decode())


if __name__ == "__main__":
    main()
