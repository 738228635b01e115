"""Real Slurm: a cell a job, the same table, and what is queued when the user leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas
import pytest

from runner import records
from tests.resuming import BRIEF, LONG, only, steady, table
from tests.slurm import cluster

LAUNCHER = ("hydra/launcher=submitit_slurm", "hydra.launcher.cpus_per_task=1")
GRID = ("-m", "scenario=python_loop", "scenario.iterations=5", "batch_size=4,8,16", *BRIEF)

pytestmark = pytest.mark.skipif(bool(cluster.why_not()), reason=cluster.why_not() or "")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with cluster.running(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


@pytest.fixture
def start(slurm: dict[str, str], outputs: Path) -> Callable[..., subprocess.Popen[str]]:
    def started(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "runner", *words, "tracking=none"],
            env={**os.environ, **slurm, "RUNNER_OUTPUTS": str(outputs)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    shown, said = process.communicate(timeout=2 * LONG)
    assert process.returncode == 0, said
    return shown, said


def test_a_sweep_on_a_cluster_ends_in_the_same_table(
    start: Callable[..., subprocess.Popen[str]], outputs: Path
) -> None:
    shown, _ = ended(start(*GRID, *LAUNCHER))
    assert "3 of 3 cells completed" in shown
    assert "under submitit_slurm: not in rounds" in shown
    folder = only(outputs)
    for number in range(3):
        record = records.read(folder / str(number))
        assert record.sweep is not None
        assert record.sweep["launcher"] == "submitit_slurm"
    ended(start(*GRID))
    (here,) = (path for path in outputs.glob("sweeps/*/*") if path != folder)
    pandas.testing.assert_frame_equal(steady(table(folder)), steady(table(here)))


def test_jobs_that_go_on_after_their_user_left_are_found_on_resume(
    start: Callable[..., subprocess.Popen[str]], slurm: dict[str, str], outputs: Path
) -> None:
    process = start(*GRID, *LAUNCHER)
    deadline = time.monotonic() + LONG
    while not list(outputs.rglob("run.log"))[1:] and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=LONG)
    assert process.returncode == 130
    folder = only(outputs)
    assert set(table(folder).status) == {"interrupted"}
    assert "resume=" in shown
    while queued(slurm) and time.monotonic() < deadline:
        time.sleep(0.5)
    _, said = ended(start(*GRID, f"resume={folder}"))
    assert "3 cells, 3 of them done" in said
    assert set(table(folder).status) == {"completed"}


def queued(slurm: dict[str, str]) -> bool:
    done = subprocess.run(["squeue", "--noheader"], env=slurm, capture_output=True, text=True)
    return bool(done.stdout.strip())
