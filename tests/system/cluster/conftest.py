"""The same sweep here and by the workers of every cluster, each in namespaces of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.resuming import only
from tests.system.cluster.network import Namespace

CELLS = int(os.environ.get("RUNNER_TEST_CELLS", "12"))
LONG = 900.0  # seconds that no sweep here comes near, however busy the machine is

THEIRS = """
import os, signal
from pathlib import Path
import tensorflow as tf

def kill_worker():
    pid = os.getppid()
    while b"spawn_main" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)

def make(batch_size):
    if batch_size == 2:
        raise ValueError("not with two")
    killing, weight = Path("kill_workers"), tf.ones([100, 100])

    def step():
        if batch_size == 6 and killing.exists():
            kill_worker()
        if batch_size == 3 and killing.exists() and killing.read_text() == "once":
            killing.write_text("")
            kill_worker()
        return tf.ones([batch_size, 100]) @ weight

    return step
"""

GRID = (
    *("-m", "scenario=callable", "scenario.target=theirs:make", f"batch_size=range(1,{CELLS + 1})"),
    *("measure.timing_processes=0", "tracking=none"),
)


@dataclass(frozen=True)
class Cluster:
    """The words that ask for a cluster, how a command reaches it, and the namespaces it runs in."""

    words: tuple[str, ...] = ()
    inside: Callable[..., list[str]] = lambda *words: list(words)
    environment: Mapping[str, str] = field(default_factory=dict)
    namespaces: Sequence[Namespace] = ()

    def start(self, outputs: Path, cwd: Path, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.inside(sys.executable, "-m", "runner", *words, *self.words),
            env={**os.environ, **self.environment, "RUNNER_OUTPUTS": str(outputs)},
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_and_wait(
        self, outputs: Path, cwd: Path, records: int, *words: str
    ) -> subprocess.Popen[str]:
        """Return a command that has come to so many records."""
        process = self.start(outputs, cwd, *words)
        self.wait_for_records(process, outputs, records)
        return process

    def wait_for_records(self, process: subprocess.Popen[str], outputs: Path, records: int) -> None:
        def are_there() -> bool:
            assert process.poll() is None, process.communicate()
            return len(list(outputs.glob("sweeps/*/*/*/record.json"))) >= records

        wait_until(are_there, "nothing is measured")

    def list_servers(self) -> list[psutil.Process]:
        """Return the servers of trials, and their trials, that run in the namespaces."""
        processes = [process for network in self.namespaces for process in network.processes()]
        return [process for process in processes if "processes/start.py" in str(process.info)]


def wait_until(is_so: Callable[[], object], what: str, seconds: float = LONG) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def finish(process: subprocess.Popen[str], code: int) -> str:
    """Return all that a command has printed; it must have ended with that exit code."""
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == code, shown + said
    assert "Traceback" not in shown + said
    return shown + said


def read_table(outputs: Path) -> str:
    return (only(outputs) / "table.csv").read_text()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user stands, with code of their own."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "theirs.py").write_text(THEIRS)
    return folder


@pytest.fixture(scope="session")
def swept_here(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the outputs of the sweep on this machine."""
    outputs = tmp_path_factory.mktemp("here")
    finish(Cluster().start(outputs, home, *GRID), 1)
    return outputs


def need(why_not: str | None) -> None:  # skips its tests, but in CI they fail
    if why_not:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why_not)
