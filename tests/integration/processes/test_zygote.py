"""What a zygote and its children have of the parent, and what is left of them when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.cell import TrialSpec
from runner.config import Experiment
from runner.errors import ServerError
from runner.processes import process_tree, scratch
from runner.processes.server import TrialServer
from runner.records import Trial
from runner.scenario import Scenario
from tests.conftest import ANYWHERE, BRIEF, UNTRACKED, RunScenario
from tests.integration.processes.faults import Fault
from tests.integration.processes.probes import Frames, Inherited, Surroundings

PARENT = """
import json, signal, sys, threading
from pathlib import Path
from runner.processes import process_tree
from tests.integration.processes.test_zygote import run_in
from tests.integration.processes.faults import Fault
from runner.processes.server import TrialServer

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored
server = TrialServer(Path(sys.argv[1]))
server.start()
if sys.argv[2] == "hang":
    run_in(server, Fault("none", "build"))
    on_phase = lambda phase: print("begun", flush=True)
    run_in(server, Fault("daemon_hang", "build", sys.argv[3]), on_phase)
print("begun", flush=True)
threading.Event().wait()
"""
"""Has a zygote that loads, or a child that hangs and has a daemon."""


PATIENCE = 120.0
"""Seconds that nothing here takes, however busy the machine is."""


def run_in(
    server: TrialServer, scenario: Scenario, on_phase: Callable[[str], None] = lambda _: None
) -> Trial:
    experiment = Experiment("test", scenario, "eager", ANYWHERE, BRIEF, UNTRACKED, 4, 0)
    return server.run(TrialSpec(experiment, "timing", 0), 60.0, on_phase)


@contextmanager
def start_parent(*words: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", PARENT, *words]
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()  # or leaving it would wait for ever where a test has failed


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def zygote_pid(server: TrialServer) -> int:
    (zygote,) = server._zygotes.values()
    return zygote._process.pid


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[TrialServer]:
    server = TrialServer(tmp_path / "server.log")
    yield server
    server.stop()


def test_few_frames_are_below_a_step(run_scenario: RunScenario) -> None:
    """start.py, the worker and the loop over the phases: TensorFlow walks them for every op."""
    assert "frames: 3 " in (run_scenario(Frames()).outcome.reason or "")


def test_a_program_finds_none_of_the_descriptors_of_ours(run_scenario: RunScenario) -> None:
    reason = run_scenario(Inherited()).outcome.reason or ""
    assert "socket:" not in reason
    assert "pipe:" not in reason
    assert "memfd" not in reason


def test_a_child_stands_where_its_parent_does_now(
    run_scenario: RunScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["somebody's", "words"])
    monkeypatch.setattr(sys, "path", [*sys.path, "/somebody's/path"])
    reason = run_scenario(Surroundings()).outcome.reason or ""
    assert f"{tmp_path} [\"somebody's\", 'words'] /somebody's/path None" in reason


def test_a_folder_that_has_gone_is_the_reason(
    run_scenario: RunScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setenv("PWD", str(gone))
    monkeypatch.chdir(gone)
    gone.rmdir()
    outcome = run_scenario(Fault("none", "build")).outcome
    assert outcome.status == "failed"
    assert str(gone) in (outcome.reason or "")


def test_a_zygote_outlives_the_thread_that_started_it(own_server: TrialServer) -> None:
    thread = threading.Thread(target=run_in, args=(own_server, Fault("none", "build")))
    thread.start()
    thread.join(PATIENCE)
    before = zygote_pid(own_server)
    time.sleep(0.2)
    assert run_in(own_server, Fault("none", "build")).outcome.completed
    assert zygote_pid(own_server) == before


def test_a_server_whose_log_is_known_later_forgets_no_word(tmp_path: Path) -> None:
    server = TrialServer()
    assert run_in(server, Fault("none", "build")).outcome.completed
    os.write(server._output, b"said by the zygote\n")
    server.log = tmp_path / "server.log"
    server.stop()
    assert "said by the zygote" in server.log.read_text()


def test_a_server_that_was_terminated_runs_nothing_more(own_server: TrialServer) -> None:
    own_server.terminate()
    with pytest.raises(ServerError, match="was ended"):
        run_in(own_server, Fault("none", "build"))


def test_terminating_is_heard_at_once_in_every_thread(own_server: TrialServer) -> None:
    ends: list[object] = []

    def run() -> None:
        try:
            ends.append(run_in(own_server, Fault("hang", "build")).outcome.status)
        except ServerError as error:
            ends.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)  # TensorFlow is loading
    started = time.monotonic()
    own_server.terminate()
    for thread in threads:
        thread.join(PATIENCE)
    assert time.monotonic() - started < 10
    assert len(ends) == 3


def test_a_new_server_removes_scratch_folders_of_the_killed(
    own_server: TrialServer,
) -> None:
    folder, lock = scratch.make_folder()
    os.close(lock)
    assert run_in(own_server, Fault("none", "build")).outcome.completed
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("when", ["load", "hang"])
def test_nothing_is_left_of_a_parent_that_is_killed(
    when: str, number: signal.Signals, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    pid_file.touch()
    below: list[int] = []

    def find_all_below() -> bool:
        """A process whose parent is just ending is found in the next round."""
        below[:] = process_tree.list_descendants(parent.pid)
        return len(below) >= (3 if when == "hang" else 1)  # zygote, child, daemon

    words = (str(tmp_path / "log"), when, str(pid_file))
    with start_parent(*words, TMPDIR=str(tmp_path)) as parent:
        assert parent.stdout is not None
        assert process_tree.is_readable(parent.stdout.fileno(), PATIENCE), "it has not begun"
        assert parent.stdout.readline() == b"begun\n"
        wait_until(lambda: when == "load" or pid_file.read_text() != "", "there is no daemon")
        wait_until(find_all_below, "not all of them are there")
        parent.send_signal(number)
        parent.wait(PATIENCE)
    deadline = time.monotonic() + 20
    while (left := _left(below, tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, json.dumps(left)


def _left(pids: list[int], folder: Path) -> list[str]:
    alive = [str(pid) for pid in pids if process_tree.read_state(pid) not in ("Z", "X", None)]
    names = ("runner-*", "pymp-*", "tmp*")
    return alive + [each.name for name in names for each in folder.glob(name)]


def test_a_very_deep_temporary_folder_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    server = TrialServer(tmp_path / "server.log")
    assert run_in(server, Fault("none", "build")).outcome.completed
    server.stop()
    assert list(deep.iterdir()) == []
