"""The same sweep here and by the workers of every cluster, each in a namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.resuming import only
from tests.system.cluster import network, ray, slurm

ALWAYS, ONCE = "always", "once"
"""Files in the outputs: while the first is there, each worker that measures the cell of six is
killed; the second goes with the first worker that measures the cell of three."""

THEIRS = f"""
import os, signal
from pathlib import Path
import tensorflow as tf

OUTPUTS = Path(os.environ["RUNNER_OUTPUTS"])

def is_worker(pid):
    words = Path(f"/proc/{{pid}}/cmdline").read_bytes()
    return b"submitit" in words or b"ray::" in words

def kill_worker():
    pid = os.getppid()
    while not is_worker(pid):
        pid = int(Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)

def make(batch_size):
    if batch_size == 11:
        raise ValueError("not with eleven")
    weight = tf.ones([100, 100])

    def step():
        if batch_size == 6 and (OUTPUTS / "{ALWAYS}").exists():
            kill_worker()
        if batch_size == 3 and (OUTPUTS / "{ONCE}").exists():
            (OUTPUTS / "{ONCE}").unlink()
            kill_worker()
        return tf.ones([batch_size, 100]) @ weight

    return step
"""

GRID = (
    *("-m", "scenario=callable", "scenario.target=theirs:make"),
    *("batch_size=1,2,3,4,5,6,7,8,9,10,11,12", "measure.timing_processes=0"),
)


@dataclass(frozen=True)
class Cluster:
    """A cluster of two nodes: which words ask for it, how a command is run so that it is reached,
    and which processes are its own."""

    words: tuple[str, ...]
    inside: Callable[..., list[str]]
    environment: Mapping[str, str]
    processes: Callable[[], list[psutil.Process]]

    def start(self, outputs: Path, cwd: Path, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.inside(sys.executable, "-m", "runner", *words, *self.words),
            env={**os.environ, **self.environment, "RUNNER_OUTPUTS": str(outputs)},
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


HERE = Cluster((), lambda *words: list(words), {}, list)
LONG = 600.0
"""Seconds that no sweep here comes near, however busy the machine is."""


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user stands, with code of their own."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "theirs.py").write_text(THEIRS)
    return folder


@pytest.fixture(scope="session")
def swept_here(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the sweep on this machine."""
    outputs = tmp_path_factory.mktemp("here")
    process = HERE.start(outputs, home, *GRID, "tracking=none")
    _, said = process.communicate(timeout=LONG)
    assert process.returncode == 1, said
    return only(outputs)


def need(why_not: str | None) -> None:
    """Where a program is not installed its tests are skipped, in CI they fail."""
    if why_not and os.environ.get("CI") == "true":
        pytest.fail(why_not)
    if why_not:
        pytest.skip(why_not)


@contextmanager
def open_cluster(kind: str) -> Iterator[Cluster]:
    need(network.why_not())
    if kind == "submitit_slurm":
        need(slurm.why_not())
    run = slurm.running if kind == "submitit_slurm" else ray.running
    with network.namespace() as own, run(own) as environment:
        yield Cluster((f"hydra/launcher={kind}",), own.inside, environment, own.processes)
