"""Real Slurm: what goes on when the user leaves, how it is stopped, and what is found on return."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.launchers import network, slurm
from tests.launchers.conftest import LONG, Cluster, cluster_of, need
from tests.resuming import only, table

GRID = ("-m", "scenario=tensor_per_step", "measure.timing_processes=0", "tracking=none")

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_of("submitit_slurm") as found:
        yield found


def queued(cluster: Cluster) -> bool:
    command = cluster.inside("squeue", "--noheader")
    done = subprocess.run(command, env=dict(cluster.environment), capture_output=True, text=True)
    return bool(done.stdout.strip())


def handing_out(process: subprocess.Popen[str]) -> bool:
    """A job is in the queue before the command has been told its number."""
    with suppress(psutil.NoSuchProcess):
        return any(each.name() == "sbatch" for each in psutil.Process(process.pid).children())
    return True


def left_while_jobs_wait(cluster: Cluster, outputs: Path, cwd: Path, *words: str) -> str:
    """What the command says when it is interrupted after it has handed its jobs out."""
    process = cluster.start(outputs, cwd, *GRID, *words)
    deadline = time.monotonic() + LONG
    while not (queued(cluster) and not handing_out(process)) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)  # `ip netns exec` has become the command
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == 130, said
    assert "resume=" in shown
    return said


def test_who_leaves_hears_how_jobs_that_go_on_are_stopped_and_that_stops_them(
    cluster: Cluster, outputs: Path, tmp_path: Path
) -> None:
    said = left_while_jobs_wait(cluster, outputs, tmp_path, "batch_size=1,2,3")
    assert re.search(r"\d jobs go on in Slurm", said), said
    told = re.search(r"stopped with `(scancel \d+)`", said)
    assert told, said
    command = cluster.inside(*shlex.split(told[1]))
    subprocess.run(command, env=dict(cluster.environment), check=True)
    deadline = time.monotonic() + LONG
    while queued(cluster) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not queued(cluster)
    assert set(table(only(outputs)).status) == {"interrupted"}


def test_jobs_that_go_on_after_their_user_left_are_found_on_resume(
    cluster: Cluster, outputs: Path, tmp_path: Path
) -> None:
    left_while_jobs_wait(cluster, outputs, tmp_path, "batch_size=1,2")
    folder = only(outputs)
    assert "interrupted" in set(table(folder).status)
    deadline = time.monotonic() + LONG
    while queued(cluster) and time.monotonic() < deadline:
        time.sleep(0.2)
    process = cluster.start(outputs, tmp_path, *GRID, "batch_size=1,2", f"resume={folder}")
    _, said = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    assert "2 cells, 2 of them done" in said
    assert set(table(folder).status) == {"completed"}


def test_a_cluster_leaves_nothing_behind_not_even_where_a_job_still_runs() -> None:
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
