"""What it costs to know the line of every allocation: time and memory of a memory trial with lines
against without, side by side.

python -m tests.benchmarks lines
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from runner.cell import TrialSpec
from runner.compose import composition
from runner.processes.server import TrialServer

CELLS = {
    "smallest scenario (large_tensor, eager)": ["scenario=large_tensor", "execution=eager"],
    "largest scenario (transformer, eager)": [
        *("scenario=keras_training", "scenario.model=transformer", "execution=eager"),
    ],
    "largest scenario (transformer, graph)": [
        *("scenario=keras_training", "scenario.model=transformer", "execution=graph"),
    ],
    "largest scenario (transformer, xla)": [
        *("scenario=keras_training", "scenario.model=transformer", "execution=xla"),
    ],
    "a step of 10,000 ops (python_loop, eager)": [
        *("scenario=python_loop", "scenario.iterations=10000", "scenario.size=10"),
        *("execution=eager", "batch_size=1", "measure.memory_steps=3"),
    ],
}
ROUNDS = 3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = TrialServer(Path(folder) / "server.log")
        server.start()
        for name, words in CELLS.items():
            _compare(server, name, words)
        server.stop()


def _compare(server: TrialServer, name: str, words: Sequence[str]) -> None:
    experiment = composition.compose_plan(list(words)).cells[0].experiment
    seconds: dict[bool, list[float]] = {True: [], False: []}
    peaks: dict[bool, list[int]] = {True: [], False: []}
    for number in range(ROUNDS):
        for with_lines in (True, False) if number % 2 else (False, True):
            begun = time.perf_counter()
            trial = server.run(TrialSpec(experiment, "memory", number, with_lines=with_lines), 300)
            seconds[with_lines].append(time.perf_counter() - begun)
            assert trial.outcome.completed, trial.outcome
            peaks[with_lines].append(int(trial.facts.process_peak_bytes))
    medians = {which: statistics.median(times) for which, times in seconds.items()}
    high = {which: statistics.median(found) for which, found in peaks.items()}
    print(
        f"{name}: {medians[True]:.2f} s with lines, {medians[False]:.2f} s without, "
        f"ratio {medians[True] / medians[False]:.2f}; memory {high[True] / 1e6:.0f} MB and "
        f"{high[False] / 1e6:.0f} MB, ratio {high[True] / high[False]:.2f} "
        f"(load {os.getloadavg()[0]:.1f})",
        flush=True,
    )
