"""A sweep of four cells as a user starts it, killed and resumed; for tests and a benchmark."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pandas

from runner import sweep
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
    """The folder of the one sweep there is."""
    (found,) = outputs.glob("sweeps/*/*")
    return found


def table(folder: Path) -> pandas.DataFrame:
    return pandas.read_csv(folder / "table.csv")


def steady(frame: pandas.DataFrame) -> pandas.DataFrame:
    """What a table says however fast and noisy the machine was."""
    noisy = [name for name, metric in METRICS.items() if metric.source == "timing"]
    return frame[[name for name in frame if not name.startswith(tuple(noisy))]]


def kill_and_resume(outputs: Path, kills: int, seconds: float, moments: random.Random) -> list[int]:
    """Start the sweep, kill it at a random moment of its life, resume it, kill it again, ..., and
    let it end. Returns how many trials were on the disk after each kill."""
    trials = []
    for number in range(kills + 1):
        begun = list(outputs.glob(f"sweeps/*/*/{sweep.PLAN_FILE}"))
        resume = [f"resume={begun[0].parent}"] if begun else []
        process = start(outputs, *GRID, *BRIEF, *resume)
        if number < kills:
            time.sleep(moments.uniform(0, seconds))
            process.kill()
            trials.append(count_trials(outputs))
        _, errors = process.communicate(timeout=LONG)
        assert number < kills or process.returncode == 0, errors
    return trials


def count_trials(outputs: Path) -> int:
    return sum(path.read_text().count("\n") for path in outputs.rglob("trials.jsonl"))


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
