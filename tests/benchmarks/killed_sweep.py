"""A sweep of four cells, killed at a random moment ten times and resumed, against an unbroken one.

python -m tests.benchmarks killed_sweep
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from runner import records
from tests.resuming import BRIEF, GRID, kill_and_resume, only, start, steady, stored, table

KILLS = 10


def main() -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        whole, broken = Path(one), Path(other)
        started = time.monotonic()
        process = start(whole, *GRID, *BRIEF)
        _, said = process.communicate()
        assert process.returncode == 0, said
        seconds = time.monotonic() - started
        seed = random.randrange(10**6)
        trials = kill_and_resume(broken, KILLS, seconds, random.Random(seed))
        same = steady(table(only(whole))).equals(steady(table(only(broken))))
        runs = stored(broken)
        twice = len(runs) - len({record for record, _ in runs})
        running = sum(status == "RUNNING" for _, status in runs)
        indexes = [
            [(trial.kind, trial.index) for trial in records.read(folder).trials]
            for folder in records.find(only(broken))
        ]
    print(
        f"{KILLS} kills within {seconds:.0f} s (seed {seed}), trials on the disk after each: "
        f"{trials}; the same table as an unbroken sweep: {same}; in MLflow {len(runs)} runs, "
        f"{twice} of them twice, {running} RUNNING; every trial once: {_each_once(indexes)}"
    )
    assert trials == sorted(trials)


def _each_once(indexes: list[list[tuple[str, int]]]) -> bool:
    return all(each == [("memory", 0), ("timing", 0), ("timing", 1)] for each in indexes)
