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
import psutil
import pytest

from runner import records
from tests.resuming import BRIEF, LONG, only, steady, table
from tests.slurm import cluster

LAUNCHER = ("hydra/launcher=submitit_slurm", "hydra.launcher.cpus_per_task=1")
Start = Callable[..., subprocess.Popen[str]]

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """Where Slurm is not installed its tests are skipped, in CI they fail."""
    if why := cluster.why_not():
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)


@pytest.fixture(scope="module")
def slurm(installed: None) -> Iterator[dict[str, str]]:
    with cluster.running() as environment:
        yield environment


@pytest.fixture
def start(slurm: dict[str, str], outputs: Path, tmp_path: Path) -> Start:
    def started(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "runner", "-m", *words, *BRIEF, "tracking=none"],
            env={**os.environ, **slurm, "RUNNER_OUTPUTS": str(outputs)},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


def ended(process: subprocess.Popen[str], code: int) -> tuple[str, str]:
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == code, said
    return shown, said


THEIRS = """
import tensorflow as tf

def make(batch_size):
    if batch_size == 8:
        raise ValueError("not with eight")
    return lambda: tf.ones([batch_size, 100])
"""


def test_a_sweep_on_a_cluster_ends_in_the_same_table_a_failed_cell_as_a_row(
    start: Start, outputs: Path, tmp_path: Path
) -> None:
    (tmp_path / "theirs.py").write_text(THEIRS)
    grid = ("scenario=callable", "scenario.target=theirs:make", "batch_size=4,8")
    shown, said = ended(start(*grid, *LAUNCHER), 1)
    assert "Traceback" not in said
    assert "1 of 2 cells completed in " in shown
    assert "under submitit_slurm: not in rounds" in shown
    folder = only(outputs)
    assert list(table(folder).status) == ["completed", "failed"]
    assert "not with eight" in table(folder).reason[1]
    record = records.read(folder / "0")
    assert record.sweep is not None
    assert (record.sweep["launcher"], record.sweep["in_rounds"]) == ("submitit_slurm", False)
    ended(start(*grid), 1)
    (here,) = (path for path in outputs.glob("sweeps/*/*") if path != folder)
    pandas.testing.assert_frame_equal(steady(table(folder)), steady(table(here)))


def test_jobs_that_go_on_after_their_user_left_are_found_on_resume(
    start: Start, slurm: dict[str, str], outputs: Path
) -> None:
    grid = ("scenario=python_loop", "scenario.iterations=5", "batch_size=4,8,16")
    process = start(*grid, *LAUNCHER)
    deadline = time.monotonic() + LONG
    while not queued(slurm) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    shown, _ = ended(process, 130)
    folder = only(outputs)
    assert "interrupted" in set(table(folder).status)
    assert "resume=" in shown
    while queued(slurm) and time.monotonic() < deadline:
        time.sleep(0.2)
    _, said = ended(start(*grid, f"resume={folder}"), 0)
    assert "3 cells, 3 of them done" in said
    assert set(table(folder).status) == {"completed"}


def queued(slurm: dict[str, str]) -> bool:
    done = subprocess.run(["squeue", "--noheader"], env=slurm, capture_output=True, text=True)
    return bool(done.stdout.strip())


def daemons() -> dict[int, str]:
    return {
        each.pid: each.info["name"]
        for each in psutil.process_iter(["name", "status"])
        if each.info["name"].startswith(("slurm", "munge")) and each.info["status"] != "zombie"
    }


def test_a_cluster_leaves_nothing_behind_not_even_where_a_job_still_runs() -> None:
    before = daemons()
    with cluster.running() as environment:
        folder = Path(environment["SLURM_CONF"]).parent
        script = f"touch {folder}/began; sleep 600"
        job = ["sbatch", "--quiet", f"--output={folder}/job.log", f"--wrap={script}"]
        subprocess.run(job, env=environment, check=True)
        while not (folder / "began").exists():
            time.sleep(0.05)
        began = {name for pid, name in daemons().items() if pid not in before}
        assert began >= {"munged", "slurmctld", "slurmd", "slurmstepd"}
    assert daemons() == before
    assert not folder.exists()
