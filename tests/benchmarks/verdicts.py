"""Whether `compare` can be believed: cells that are equal, and cells that differ by a known share.

    python -m tests.benchmarks verdicts

A/A: twenty pairs of equal cells (two seeds of a scenario that draws nothing) from each of five
short scenarios, measured as by default. Each pair is judged on its own: the correction for many
rows, which makes false alarms rarer still, gets no part in it.
A/A of graphs, whose peaks are drawn anew in each process: of each of four, a pool of processes is
measured once, and each of a hundred pairs draws its own from it, none twice within a pair, as many
as a run would have taken. So pairs share processes: a hundred are not a hundred times the evidence.
A/B: ten pairs of which one side does 15 % more work a step, and ten of which one holds 1 % more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from runner import records
from runner.analysis import comparison, estimate, repeatability, selection
from runner.analysis.comparison import ComparisonRow, RowVerdict
from runner.records import Record, Trial

PAIRS = 20
SHORT = (
    ("scenario=python_loop", "scenario.iterations=20"),
    ("scenario=while_loop", "scenario.iterations=20"),
    ("scenario=chained_ops", "scenario.size=100"),
    ("scenario=tensor_per_step",),
    ("scenario=optimizer_slots", "scenario.size=100"),
)
DIFFERENT = (RowVerdict.BETTER, RowVerdict.WORSE)
METRICS = ("tensor_peak_bytes", "tensor_growth_bytes_per_step", "step_seconds")


GRAPHS = (
    ("scenario=callable", "scenario.target=tests.benchmarks._steps:training"),
    ("scenario=callable", "scenario.target=tests.benchmarks._steps:fitting"),
    ("scenario=keras_training", "scenario.model=transformer", "execution=graph"),
    ("scenario=python_loop", "scenario.gradient=tape", "execution=graph"),
)
POOL = 48


def main() -> None:
    same()
    graphs()
    slower("quick")
    slower("standard")
    larger()


def same() -> None:
    rows: list[ComparisonRow] = []
    started = time.monotonic()
    for words in SHORT:
        cells = _sweep(*words, f"seed=range({2 * PAIRS})")
        rows += _judged(cells[::2], cells[1::2])
    times = [row for row in rows if row.metric == "step_seconds"]
    memory = [row for row in rows if row.metric != "step_seconds"]
    print(
        f"A/A, {len(times)} pairs of equal cells, measure=quick: {_different(times)} called "
        f"different in time [at most 5], {_different(memory)} in memory [0]; time: "
        f"{_counted(times)}; in {time.monotonic() - started:.0f} s",
        flush=True,
    )


def graphs() -> None:
    for words in GRAPHS:
        processes = (f"measure.memory_processes={POOL}", "measure.timing_processes=0")
        [cell] = _sweep(*words, *processes, "seed=0")
        print(f"A/A, {words[1]}: {drawn(cell)}", flush=True)


def drawn(cell: Record, pairs: int = 100) -> str:
    """What a hundred pairs that draw from one pool of processes are called; and a hundred of which
    one side holds 1 % more."""
    random = Random(0)
    more = round(0.01 * max(estimate.list_samples(cell.trials, "tensor_peak_bytes", cell.spec)))
    said = []
    for held in (0, more):
        both = [_two_of(cell, random, held) for _ in range(pairs)]
        rows = [
            row
            for one, other in both
            for row in comparison.compare([selection.Pair(one, other, "one", "other")]).rows
        ]
        peaks = [row for row in rows if row.metric == "tensor_peak_bytes"]
        live = [row for row in rows if row.metric == "tensor_live_bytes"]
        said.append(f"{held} bytes more: peak {_counted(peaks)}; held {_counted(live) or 'no row'}")
    return ". ".join(said)


def _two_of(cell: Record, random: Random, held: int) -> tuple[Record, Record]:
    trials = random.sample(cell.trials, 2 * repeatability.MOST)
    holding = [_holding(trial, held) for trial in trials[repeatability.MOST :]]
    return _as_a_run_would(cell, trials[: repeatability.MOST]), _as_a_run_would(cell, holding)


def _holding(trial: Trial, more: int) -> Trial:
    """As if so many bytes more had been there all along."""
    peak = trial.facts.tensor_peak_bytes + more
    live = tuple(bytes_ + more for bytes_ in trial.steps.tensor_live_bytes)
    facts = msgspec.structs.replace(trial.facts, tensor_peak_bytes=peak)
    steps = msgspec.structs.replace(trial.steps, tensor_live_bytes=live)
    return replace(trial, facts=facts, steps=steps)


def _as_a_run_would(cell: Record, trials: list[Trial]) -> Record:
    taken = trials[:1]
    while repeatability.needs_more_trials(taken, cell.spec.execution) and len(taken) < len(trials):
        taken = trials[: len(taken) + 1]
    found = estimate.estimate_metrics(taken, cell.spec)
    return replace(
        cell, trials=tuple(taken), metrics=found.metrics, intervals=found.intervals,
        unavailable=found.unavailable,
    )  # fmt: skip


def slower(measure: str) -> None:
    """Products of matrices, 100 a step against 115."""
    cells = _sweep(
        "scenario=callable",
        "scenario.target=tests.benchmarks._steps:products",
        "+scenario.arguments.count=100,115",
        "seed=range(10)",
        f"measure={measure}",
        "measure.max_seconds=1",
    )
    rows = [
        row
        for row in _judged(*_halves(cells, "arguments", {"count": 100}))
        if row.metric == "step_seconds"
    ]  # fmt: skip
    ratios = sorted(row.ratio or 0.0 for row in rows)
    found = sum(row.verdict is RowVerdict.WORSE for row in rows)
    wanted = "  [at least 9]" if measure == "standard" else ""
    print(
        f"A/B, 15 % more work a step, measure={measure}: found in {found} of {len(rows)}{wanted}; "
        f"ratios {ratios[0]:.3f} to {ratios[-1]:.3f}; {_counted(rows)}",
        flush=True,
    )


def larger() -> None:
    """A tensor of 250,000 floats against one of 252,500."""
    cells = _sweep(
        "scenario=tensor_per_step", "scenario.elements=250000,252500", "seed=range(10)"
    )  # fmt: skip
    rows = [
        row
        for row in _judged(*_halves(cells, "elements", 250_000))
        if row.metric == "tensor_peak_bytes"
    ]
    found = sum(row.verdict is RowVerdict.WORSE for row in rows)
    print(f"A/B, 1 % more held: found in {found} of {len(rows)}  [all]")


def _sweep(*words: str) -> list[Record]:
    """A real sweep's records, in the order of its cells."""
    with tempfile.TemporaryDirectory() as outputs:
        command = [sys.executable, "-m", "runner", "-m", *words, "tracking=none"]
        environment = {**os.environ, "RUNNER_OUTPUTS": outputs}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found = [records.read(folder) for folder in records.find(Path(outputs) / "sweeps")]
    return sorted(found, key=lambda record: record.spec.seed)


def _halves(cells: list[Record], parameter: str, value: Any) -> tuple[list[Record], list[Record]]:
    """Those with that value, and the others, in step."""
    own = [cell.spec.parameters[parameter] for cell in cells]
    return (
        [cell for cell, its in zip(cells, own, strict=True) if its == value],
        [cell for cell, its in zip(cells, own, strict=True) if its != value],
    )


def _judged(baselines: list[Record], candidates: list[Record]) -> list[ComparisonRow]:
    return [
        row
        for one, other in zip(baselines, candidates, strict=True)
        for row in comparison.compare(
            [selection.Pair(one, other, "baseline", "candidate")], METRICS
        ).rows
    ]


def _different(rows: list[ComparisonRow]) -> int:
    return sum(row.verdict in DIFFERENT for row in rows)


def _counted(rows: list[ComparisonRow]) -> str:
    counts = Counter(str(row.verdict) for row in rows)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
