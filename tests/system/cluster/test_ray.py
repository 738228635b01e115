"""Real Ray: its workers end with the command, however that ends, and the sweep can be resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runner import records
from tests.resuming import BRIEF, only, table, trials_kept
from tests.system.cluster.conftest import LONG, Cluster, open_cluster

WORDS = ("-m", "scenario=tensor_per_step", "batch_size=4,8,16", *BRIEF[1:], "tracking=none")
TWO = "measure.timing_processes=2"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with open_cluster("ray") as found:
        yield found


def start(cluster: Cluster, outputs: Path, *words: str) -> subprocess.Popen[str]:
    """Return a command that has measured something."""
    process = cluster.start(outputs, outputs.parent, *WORDS, *words)
    deadline = time.monotonic() + LONG
    while not trials_kept(outputs):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return process


def workers(cluster: Cluster) -> list[psutil.Process]:
    """Return the workers of ours, and all that they have started."""
    own = [each for each in cluster.processes() if "take_cells" in " ".join(each.cmdline())]
    return [*own, *(child for each in own for child in each.children(recursive=True))]


def test_an_interrupted_sweep_leaves_no_worker_and_is_resumed(
    cluster: Cluster, outputs: Path
) -> None:
    process = start(cluster, outputs, TWO)
    family = workers(cluster)
    assert len(family) >= 2
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "none goes on" in said
    assert psutil.wait_procs(family, timeout=60)[1] == []
    folder = only(outputs)
    assert len(table(folder)) == 3
    assert (
        f"resume={os.path.relpath(folder, outputs.parent)}" in shown or f"resume={folder}" in shown
    )
    process = cluster.start(outputs, outputs.parent, *WORDS, TWO, f"resume={folder}")
    _, said = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    for number in range(3):
        trials = records.read(folder / str(number)).trials
        assert [trial.index for trial in trials] == [0, 0, 1], "none was run twice"


def test_workers_end_with_a_command_that_was_killed(cluster: Cluster, outputs: Path) -> None:
    process = start(cluster, outputs, "measure.timing_processes=50")
    family = workers(cluster)
    process.kill()
    process.communicate(timeout=LONG)
    assert psutil.wait_procs(family, timeout=60)[1] == []


def test_a_sweep_alone_starts_its_own_ray(cluster: Cluster, outputs: Path) -> None:
    home = outputs.parent / "home"
    home.mkdir()
    environment = {**cluster.environment, "RAY_ADDRESS": "local", "HOME": str(home)}
    own = Cluster(cluster.words, cluster.inside, environment, cluster.processes)
    words = ("measure.timing_processes=0", "hydra.launcher.workers=1")
    process = own.start(outputs, outputs.parent, *WORDS, *words)
    _, said = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    assert set(table(only(outputs)).status) == {"completed"}
    assert not (home / ".ray").exists(), "Ray left a token"
