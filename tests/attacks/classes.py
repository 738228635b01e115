"""The classes of attacks.

A class is a function that takes a folder and a number of cases, and yields for each case None, or
what fell short. A case's seed is its class and its number, so the same number makes the same cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.attacks import bad_data, exceptions, programs, strangers, sweeps

Class = Callable[[Path, int], Iterator[str | None]]

CLASSES: dict[str, tuple[Class, int]] = {
    "a stranger's record, repeated": (strangers.repeat_records, 160),
    "a stranger's texts in tables": (strangers.write_tables, 60),
    "a record with another's id": (strangers.publish_over, 20),
    "a server's places for files": (strangers.answer_for_servers, 300),
    "secrets among the arguments": (strangers.keep_secrets, 40),
    "a sweep's files, damaged": (sweeps.damage_files, 110),
    "folders that vanish": (sweeps.lose_folders, 33),
    "figures that cannot be": (bad_data.show_figures, 150),
    "YAML that cannot be": (bad_data.read_yaml, 250),
    "a machine that refuses": (bad_data.fail_to_write, 100),
    "words that nobody foresees": (bad_data.take_words, 60),
    "broken exceptions": (exceptions.explain, 400),
    "programs that break things": (programs.run_programs, 190),
}
"""Each class, and its cases of two thousand: few of what takes long."""


def try_all(scratch: Path, share: float = 1.0) -> tuple[Counter[str], list[str]]:
    """Return how many cases of each class were tried, that share of two thousand in all, and what
    each that fell short did."""
    counts: Counter[str] = Counter()
    short: list[str] = []
    for name, (make, count) in CLASSES.items():
        folder = scratch / name.replace(" ", "-")
        folder.mkdir()
        for problem in make(folder, max(1, round(count * share))):
            counts[name] += 1
            if problem:
                short.append(f"{name}: {problem}")
    return counts, short
