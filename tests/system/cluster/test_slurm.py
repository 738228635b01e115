"""Real Slurm: what goes on when the user leaves, how it is stopped, and what is found on return."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from runner import records
from tests.resuming import only, table, trials_kept
from tests.system.cluster import network, slurm
from tests.system.cluster.conftest import LONG, Cluster, need, open_cluster

GRID = ("-m", "scenario=tensor_per_step", "measure.timing_processes=0", "tracking=none")

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with open_cluster("submitit_slurm") as found:
        yield found


def ask(cluster: Cluster, *command: str) -> str:
    done = subprocess.run(
        cluster.inside(*command), env=dict(cluster.environment), capture_output=True, text=True
    )
    return done.stdout.strip()


def wait_until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def queued(cluster: Cluster) -> str:
    return ask(cluster, "squeue", "--noheader")


def handing_out(process: subprocess.Popen[str]) -> bool:
    """A job is in the queue before the command has been told its number."""
    with suppress(psutil.NoSuchProcess):
        return any(each.name() == "sbatch" for each in psutil.Process(process.pid).children())
    return True


def leave(process: subprocess.Popen[str]) -> str:
    """Return what a command says that is interrupted."""
    process.send_signal(signal.SIGINT)  # `ip netns exec` has become the command
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == 130, said
    assert "resume=" in shown
    return said


def leave_while_jobs_wait(cluster: Cluster, outputs: Path, cwd: Path, *words: str) -> str:
    """Return what the command says when it is interrupted after it has handed its jobs out."""
    process = cluster.start(outputs, cwd, *GRID, *words)
    wait_until(lambda: queued(cluster) and not handing_out(process), "no job is sent")
    return leave(process)


def test_who_leaves_hears_how_workers_are_stopped(
    cluster: Cluster, outputs: Path, tmp_path: Path
) -> None:
    said = leave_while_jobs_wait(cluster, outputs, tmp_path, "batch_size=1,2,3")
    assert "2 workers go on in Slurm" in said
    told = re.search(r"stopped with `(scancel \d+)`", said)
    assert told, said
    ask(cluster, *shlex.split(told[1]))
    wait_until(lambda: not queued(cluster), "jobs are not stopped")
    assert set(table(only(outputs)).status) == {"interrupted"}


def test_what_workers_finish_alone_is_found_on_resume(
    cluster: Cluster, outputs: Path, tmp_path: Path
) -> None:
    leave_while_jobs_wait(cluster, outputs, tmp_path, "batch_size=1,2,3")
    folder = only(outputs)
    assert "interrupted" in set(table(folder).status)
    wait_until(lambda: not queued(cluster), "workers do not end")
    process = cluster.start(outputs, tmp_path, *GRID, "batch_size=1,2,3", f"resume={folder}")
    _, said = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    assert "3 cells, 3 of them done" in said
    assert set(table(folder).status) == {"completed"}


HELD = """
import os, time
from pathlib import Path

def make(batch_size):
    while batch_size > 1 and Path(os.environ["RUNNER_OUTPUTS"], "held").exists():
        time.sleep(0.05)
    return lambda: None
"""
HOLDING = ("-m", "scenario=callable", "scenario.target=held:make", "batch_size=1,2,3,4", *GRID[2:])


def start_held(cluster: Cluster, outputs: Path, cwd: Path, *words: str) -> subprocess.Popen[str]:
    """Return a command whose first cell is measured, and whose others take until `held` goes."""
    (cwd / "held.py").write_text(HELD)
    outputs.mkdir()
    (outputs / "held").touch()
    process = cluster.start(outputs, cwd, *HOLDING, *words)
    wait_until(lambda: trials_kept(outputs), "nothing is measured")
    return process


def end_held(process: subprocess.Popen[str], outputs: Path) -> None:
    """Let the cells go, and see that each is measured once."""
    (outputs / "held").unlink()
    _, said = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    for number in range(4):
        assert len(records.read(only(outputs) / str(number)).trials) == 1


def test_resume_takes_over_from_workers_that_go_on(
    cluster: Cluster, outputs: Path, tmp_path: Path
) -> None:
    leave(start_held(cluster, outputs, tmp_path))
    first = queued(cluster)
    assert first
    process = cluster.start(outputs, tmp_path, *HOLDING, "resume=latest")
    wait_until(lambda: queued(cluster) != first, "no job is sent")
    end_held(process, outputs)


def test_a_job_that_was_cancelled_is_replaced(
    cluster: Cluster, outputs: Path, tmp_path: Path
) -> None:
    process = start_held(cluster, outputs, tmp_path, "hydra.launcher.workers=1")
    (job,) = ask(cluster, "squeue", "--noheader", "--format=%i").split()
    ask(cluster, "scancel", job)
    wait_until(
        lambda: ask(cluster, "squeue", "--noheader", "--format=%i") not in ("", job), "no job"
    )
    end_held(process, outputs)


def test_a_refused_job_is_told_in_slurms_words(
    cluster: Cluster, outputs: Path, tmp_path: Path
) -> None:
    words = (*GRID, "batch_size=1,2", "hydra.launcher.partition=nowhere")
    process = cluster.start(outputs, tmp_path, *words)
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == 1, said
    assert "Slurm did not take the workers" in said
    assert "invalid partition" in said
    assert "Traceback" not in said + shown


def test_a_cluster_leaves_nothing_behind_even_while_jobs_run() -> None:
    need(network.why_not() or slurm.why_not())
    with network.namespace() as own, slurm.running(own) as environment:
        folder = Path(environment["SLURM_CONF"]).parent
        script = f"touch {folder}/began; sleep 600"
        job = own.inside("sbatch", "--quiet", f"--output={folder}/job.log", f"--wrap={script}")
        subprocess.run(job, env=environment, check=True)
        while not (folder / "began").exists():
            time.sleep(0.05)
        began = own.processes()
        assert {each.name() for each in began} >= {"munged", "slurmctld", "slurmd", "slurmstepd"}
    assert not any(each.is_running() and each.status() != "zombie" for each in began)
    assert not folder.exists()
