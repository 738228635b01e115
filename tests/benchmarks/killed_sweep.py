"""A sweep of four cells, killed at a random moment ten times and resumed, against an unbroken one.

python -m tests.benchmarks killed_sweep
"""

from __future__ import annotations

import random
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from runner import records
from tests.resuming import BRIEF, GRID, kill_and_resume, only, start, steady, stored, table

KILLS = 10
TIMING = 8
WORDS = (*GRID, f"measure.timing_processes={TIMING}", *BRIEF[1:])
PLANNED = [("memory", 0), *(("timing", index) for index in range(TIMING))]


def main() -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        whole, broken = Path(one), Path(other)
        started = time.monotonic()
        process = start(whole, *WORDS)
        _, said = process.communicate()
        assert process.returncode == 0, said
        # Within half of what the whole takes: about half of the lives end while it still loads, and
        # the others measure a part each.
        seconds = (time.monotonic() - started) / 2
        seed = random.randrange(10**6)
        kept = kill_and_resume(broken, WORDS, KILLS, seconds, random.Random(seed))
        same = steady(table(only(whole))).equals(steady(table(only(broken))))
        runs = stored(broken)
        twice = len(runs) - len({record for record, _ in runs})
        running = sum(status == "RUNNING" for _, status in runs)
        cells = [records.read(folder).trials for folder in records.find(only(broken))]
    once = all([(trial.kind, trial.index) for trial in cell] == PLANNED for cell in cells)
    lost = sum(len(before - after) for before, after in pairwise(kept))
    print(
        f"{KILLS} kills, each within {seconds:.0f} s (seed {seed}); of {4 * len(PLANNED)} trials, "
        f"on the disk after each: {', '.join(str(len(trials)) for trials in kept[:-1])}\n"
        f"the same table as an unbroken sweep: {same}; trials lost: {lost}; each run once: {once}\n"
        f"in MLflow: {len(runs)} runs, {twice} of them twice, {running} RUNNING"
    )
    assert same
    assert once
    assert (lost, twice, running, len(runs)) == (0, 0, 0, 4)
