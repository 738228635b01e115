"""The parent's side: a process of its own for MLflow, that is never in the way and never left."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from runner import places, tracking
from runner.config import Tracking
from runner.tracking import BackgroundTracker, Place, StoreProblem, TrackedRun, Tracker
from tests.factories import completed, kept
from tests.tracking.conftest import LOCAL, Runs

LONG = 60.0
Open = Callable[..., Tracker]


@pytest.fixture
def opened(outputs: Path) -> Iterator[Open]:
    """Trackers that are closed however the test ends."""
    trackers: list[Tracker] = []

    def open_one(choice: Tracking = LOCAL, log: Path | None = None) -> Tracker:
        tracker = tracking.open_tracking(choice, outputs)
        trackers.append(tracker)
        tracker.prepare(log)
        return tracker

    yield open_one
    for tracker in trackers:
        tracker.close()


def server_at(uri: str) -> Tracking:
    return Tracking("server", uri, "runner")


def process_of(tracker: Tracker) -> psutil.Process:
    assert isinstance(tracker, BackgroundTracker)
    assert tracker._process is not None
    return psutil.Process(tracker._process.pid)


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def gone(pid: int) -> bool:
    """Whether a process ends; the test's own time limit ends the waiting."""
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.02)
    return True


def python(code: str, outputs: Path, **options: object) -> subprocess.Popen[str]:
    """A parent of its own, for what can't be done to the test's process."""
    prelude = "from pathlib import Path; from runner import tracking; import os, sys, time\n"
    tracker = (
        "tracker = tracking.open_tracking("
        f"tracking.Tracking('local', None, 'runner'), Path({str(outputs)!r}))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", prelude + tracker + code],
        stdout=subprocess.PIPE,
        text=True,
        cwd=places.project(),
        start_new_session=True,
        **options,  # type: ignore[call-overload]
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_published_record_is_in_the_store_and_its_page_is_named(
    opened: Open, outputs: Path, place: Place, runs: Runs
) -> None:
    tracker = opened()
    tracker.wait_ready(LONG)
    tracked = tracker.publish(kept(completed(), outputs / "runs" / "1"))
    assert isinstance(tracked, TrackedRun)
    (run,) = runs()
    assert run.info.run_id == tracked.run
    assert run.info.status == "FINISHED"
    assert tracked.run in tracked.page


def test_a_busy_machine_s_own_store_is_waited_for_longer_than_a_server(
    opened: Open, outputs: Path, place: Place, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "PATIENCE_SECONDS", 0.01)
    assert isinstance(opened().publish(kept(completed(), outputs / "runs" / "1")), TrackedRun)
    assert len(runs()) == 1


def test_no_tracking_starts_no_process_and_imports_no_mlflow(outputs: Path) -> None:
    code = """
import psutil
tracker = tracking.open_tracking(tracking.Tracking('none', None, 'runner'), Path('nowhere'))
tracker.prepare(); tracker.wait_ready()
said = [tracker.publish(Path('nowhere')), tracker.links()]
print(said, psutil.Process().children(), 'mlflow' in sys.modules)
"""
    with python(code, outputs) as parent:
        assert line(parent) == "[None, None] [] False"


def test_the_parent_never_imports_mlflow(outputs: Path) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    code = f"""
tracker.prepare(); tracker.wait_ready({LONG})
tracked = tracker.publish(Path({str(folder)!r})); tracker.close()
print(type(tracked).__name__, [name for name in ('mlflow', 'sqlalchemy') if name in sys.modules])
"""
    with python(code, outputs) as parent:
        assert line(parent) == "TrackedRun []"


def test_while_nothing_is_asked_it_uses_no_processor(opened: Open, place: Place) -> None:
    tracker = opened()
    tracker.wait_ready(LONG)
    process = process_of(tracker)
    before = process.cpu_times()
    time.sleep(3)
    assert process.cpu_times() == before


def test_closing_leaves_no_process(opened: Open, place: Place) -> None:
    before = children()
    tracker = opened()
    tracker.wait_ready(LONG)
    tracker.close()
    assert children() == before
    tracker.close()


def test_closing_while_it_still_imports_leaves_no_process(opened: Open, place: Place) -> None:
    before = children()
    opened().close()
    assert children() == before


@pytest.mark.parametrize(
    "wait", [f"tracker.wait_ready({LONG})", "pass"], ids=["ready", "importing"]
)
def test_when_the_parent_is_killed_it_ends_too(outputs: Path, wait: str) -> None:
    code = f"tracker.prepare(); {wait}; print(tracker._process.pid, flush=True); time.sleep({LONG})"
    with python(code, outputs) as parent:
        pid = int(line(parent))
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_ctrl_c_in_the_terminal_does_not_reach_it(outputs: Path, place: Place, runs: Runs) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
tracker.prepare(); tracker.wait_ready({LONG})
try:
    print('ready', flush=True)
    time.sleep({LONG})
except KeyboardInterrupt:
    print(type(tracker.publish(Path({str(folder)!r}))).__name__, flush=True)
tracker.close()
"""
    with python(code, outputs) as parent:
        assert line(parent) == "ready"
        os.killpg(parent.pid, signal.SIGINT)
        assert line(parent) == "TrackedRun"
    assert len(runs()) == 1


def test_an_interrupted_command_waits_for_the_record_that_is_under_way(
    outputs: Path, place: Place
) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    (folder / "long.log").write_bytes(bytes(200_000_000))  # a moment to copy
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
tracker.prepare(); tracker.wait_ready({LONG})
print(tracker._process.pid, flush=True)
try:
    tracker.publish(Path({str(folder)!r}))
except KeyboardInterrupt:
    tracker.close()
"""
    with python(code, outputs) as parent:
        publisher = psutil.Process(int(line(parent)))
        while (seen := statuses(place)) != ["RUNNING"]:
            assert seen == []
        publisher.suspend()
        assert statuses(place) == ["RUNNING"]
        parent.send_signal(signal.SIGINT)
        time.sleep(1.5)  # a machine so busy that the store is slow
        publisher.resume()
    assert statuses(place) == ["FINISHED"]


def test_who_is_in_a_hurry_gives_a_stuck_store_up_for_all_that_it_sent(
    opened: Open, outputs: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = opened()
    tracker.wait_ready(LONG)
    stuck = process_of(tracker)
    stuck.suspend()
    for number in range(3):
        tracker.send(kept(completed(), outputs / "runs" / str(number)))
    monkeypatch.setattr(tracking, "HURRIED_SECONDS", 0.1)
    tracker.hurry()
    answers = tracker.collect()  # the embedded store's own patience is a minute each
    assert ["no answer in time" in str(each) for each in answers] == [True] * 3
    assert gone(stuck.pid)


def statuses(place: Place) -> list[str]:
    assert place.database is not None
    with closing(sqlite3.connect(place.database)) as database:
        return [status for (status,) in database.execute("SELECT status FROM runs")]


def test_nothing_is_written_where_the_user_stands(
    opened: Open, outputs: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    tracker = opened()
    tracker.wait_ready(LONG)
    assert isinstance(tracker.publish(kept(completed(), outputs / "runs" / "1")), TrackedRun)
    assert list(here.iterdir()) == []
    assert {path.name for path in outputs.iterdir()} == {
        ".mlflow.lock", "mlflow.db", "artifacts", "runs",
    }  # fmt: skip


def test_a_file_of_the_user_s_named_like_a_library_is_not_imported(
    opened: Open, outputs: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlflow.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    tracker = opened()
    tracker.wait_ready(LONG)
    assert isinstance(tracker.publish(kept(completed(), outputs / "runs" / "1")), TrackedRun)


def test_what_mlflow_says_goes_to_the_log(opened: Open, place: Place, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("before\n")
    opened(log=log).wait_ready(LONG)
    assert log.read_text().startswith("before\n")
    assert "Creating initial MLflow database tables" in log.read_text()


def test_a_locked_store_is_a_problem_and_the_command_it_names_brings_the_record_in_later(
    opened: Open, outputs: Path, place: Place, runs: Runs
) -> None:
    tracker = opened()
    tracker.wait_ready(LONG)
    folder = kept(completed(), outputs / "runs" / "1")
    with sqlite3.connect(str(place.database)) as owner:
        owner.execute("BEGIN EXCLUSIVE")
        problem = tracker.publish(folder)
    owner.close()
    assert isinstance(problem, StoreProblem)
    assert problem.reason == f"{outputs / 'mlflow.db'}: database is locked."
    assert (folder / "record.json").exists()
    assert runs() == []
    command = shlex.split(problem.remedy.partition(": ")[2])
    assert command[:4] == ["python", "-m", "runner", "publish"]
    environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
    subprocess.run([sys.executable, *command[1:]], check=True, env=environment)
    assert len(runs()) == 1


def test_after_a_problem_the_store_is_given_up_and_its_process_gone(
    opened: Open, outputs: Path, place: Place
) -> None:
    before = children()
    (outputs / "mlflow.db").write_bytes(b"no database at all, but long enough" * 9)
    tracker = opened()
    tracker.wait_ready(LONG)
    assert children() == before
    problems = [tracker.publish(kept(completed(), outputs / "runs" / str(n))) for n in range(2)]
    assert all(isinstance(problem, StoreProblem) for problem in problems)
    assert "file is not a database" in str(problems[0])


def test_a_store_whose_place_is_a_folder_is_a_problem(
    opened: Open, outputs: Path, place: Place
) -> None:
    (outputs / "mlflow.db").mkdir()
    tracker = opened()
    tracker.wait_ready(LONG)
    problem = tracker.publish(kept(completed(), outputs / "runs" / "1"))
    assert "unable to open database file" in str(problem)


def test_outputs_that_can_t_be_made_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tracker = tracking.open_tracking(LOCAL, tmp_path / "file" / "outputs")
    tracker.prepare()
    tracker.wait_ready(LONG)
    problem = tracker.publish(kept(completed(), tmp_path / "1"))
    assert isinstance(problem, StoreProblem)
    assert "Not a directory" in problem.reason


def test_a_server_that_is_not_there_is_a_problem(
    opened: Open, outputs: Path, free_port: int
) -> None:
    tracker = opened(server_at(f"http://127.0.0.1:{free_port}"))
    tracker.wait_ready(LONG)
    problem = tracker.publish(kept(completed(), outputs / "runs" / "1"))
    assert isinstance(problem, StoreProblem)
    assert problem.reason == f"http://127.0.0.1:{free_port}: the server does not answer."
    assert f"tracking=server tracking.uri=http://127.0.0.1:{free_port}" in problem.remedy


def test_a_server_that_never_answers_is_a_problem_and_is_not_waited_for(
    opened: Open, outputs: Path
) -> None:
    before = children()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tracker = opened(server_at(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        tracker.wait_ready(3.0)
        problem = tracker.publish(kept(completed(), outputs / "runs" / "1"))
    assert isinstance(problem, StoreProblem)
    assert "no answer in time" in problem.reason
    assert children() == before


def test_a_process_that_was_killed_is_a_problem(opened: Open, outputs: Path, place: Place) -> None:
    log = outputs / "run.log"
    tracker = opened(log=log)
    tracker.wait_ready(LONG)
    process_of(tracker).kill()
    problem = tracker.publish(kept(completed(), outputs / "runs" / "1"))
    assert isinstance(problem, StoreProblem)
    assert f"its process ended (see {log})" in problem.reason


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for a store and little more."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1400k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_a_problem(small_disk: Path, tmp_path: Path) -> None:
    tracker = tracking.open_tracking(LOCAL, small_disk)
    tracker.prepare()
    tracker.wait_ready(LONG)
    with (small_disk / "rest").open("wb", buffering=0) as rest:
        try:
            while rest.write(bytes(4096)):
                pass
        except OSError:
            pass
    problem = tracker.publish(kept(completed(), tmp_path / "1"))
    tracker.close()
    assert isinstance(problem, StoreProblem)
    assert "database or disk is full" in problem.reason


def test_a_read_only_store_is_a_problem(small_disk: Path, tmp_path: Path) -> None:
    first = tracking.open_tracking(LOCAL, small_disk)
    first.prepare()
    first.wait_ready(LONG)
    first.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    tracker = tracking.open_tracking(LOCAL, small_disk)
    tracker.prepare()
    tracker.wait_ready(LONG)
    problem = tracker.publish(kept(completed(), tmp_path / "1"))
    tracker.close()
    assert isinstance(problem, StoreProblem)
    assert "Read-only file system" in problem.reason
