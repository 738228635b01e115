"""Keeps things in many ways between two looks, and prints what was found: a process of its own,
because a test's has so many objects that a look takes half a minute."""

from __future__ import annotations

import functools
import json
import threading
from collections import OrderedDict
from typing import Any

from runner.trial.measure import holders
from runner.trial.measure.threads import Threads

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


def found(step: Any, seen: Threads) -> list[dict[str, Any]]:
    seen.look()
    looks = holders.Holders()
    looks.begin()
    for _ in range(STEPS):
        step()
    containers = looks.end(STEPS, step)["containers"]
    seen.look()
    return list(containers)


def main() -> None:
    holders._functions = lambda objects: []  # without TensorFlow
    both = containers_and_threads()
    seen, unseen = Threads(), Threads()
    seen.mark()
    both()
    seen.mark()
    unseen.mark()
    told = {"both": found(both, seen), "chain": found(chain_of_objects(), unseen)}
    print(json.dumps({**told, "threads": seen.to_json(), "no threads": unseen.to_json()}))


if __name__ == "__main__":
    main()
