"""A sweep of four cells as a user starts it, killed and resumed; for tests and a benchmark."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pandas

from runner.cell import PLAN_FILE
from runner.metrics import METRICS

GRID = ("-m", "scenario=python_loop", "scenario.iterations=5,10", "batch_size=4,8")
BRIEF = ("measure.timing_processes=2", "measure.steps=5", "measure.max_seconds=0.1")
LONG = 120
"""Seconds that no sweep here comes near."""


def start(outputs: Path, *words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "runner", *words],
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def only(outputs: Path) -> Path:
    """The folder of the one sweep there is. (A kill before it was planned leaves an empty one.)"""
    (plan,) = outputs.glob(f"sweeps/*/*/{PLAN_FILE}")
    return plan.parent


def table(folder: Path) -> pandas.DataFrame:
    return pandas.read_csv(folder / "table.csv")


def steady(frame: pandas.DataFrame) -> pandas.DataFrame:
    """What a table says however fast and noisy the machine was."""
    noisy = [name for name, metric in METRICS.items() if metric.source == "timing"]
    return frame[[name for name in frame if not name.startswith(tuple(noisy))]]


def kill_and_resume(
    outputs: Path, words: Sequence[str], kills: int, seconds: float, moments: random.Random
) -> list[frozenset[str]]:
    """Start the sweep, kill it at a random moment of so many seconds, resume it, kill it again,
    ..., and let it end. Returns which trials were on the disk after each kill, and at the end."""
    trials = []
    for number in range(kills + 1):
        begun = list(outputs.glob(f"sweeps/*/*/{PLAN_FILE}"))
        resume = [f"resume={begun[0].parent}"] if begun else []
        process = start(outputs, *words, *resume)
        if number < kills:
            time.sleep(moments.uniform(0, seconds))
            process.kill()
        _, errors = process.communicate(timeout=LONG)
        assert number < kills or process.returncode == 0, errors
        trials.append(trials_kept(outputs))
    return trials


def trials_kept(outputs: Path, sweep: str = "*/*") -> frozenset[str]:
    """The lines of all cells' trials.jsonl, each with its cell; one that was cut short is none."""
    return frozenset(
        f"{path.parent.name}: {line}"
        for path in outputs.glob(f"sweeps/{sweep}/*/trials.jsonl")
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("}\n")
    )


def stored(outputs: Path) -> list[tuple[str, str]]:
    """Record and status of every run in MLflow that is not in its trash."""
    with closing(sqlite3.connect(outputs / "mlflow.db")) as database:
        runs = database.execute("SELECT count(*) FROM runs WHERE lifecycle_stage = 'active'")
        found = database.execute(
            "SELECT tags.value, runs.status FROM runs JOIN tags USING (run_uuid) "
            "WHERE tags.key = 'record' AND runs.lifecycle_stage = 'active' ORDER BY tags.value"
        ).fetchall()
        assert runs.fetchone() == (len(found),), "each run is a record's"
    return found
