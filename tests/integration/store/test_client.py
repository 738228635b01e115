"""The parent's side: a process of its own for MLflow, that is never in the way and never left."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from runner import paths
from runner.config import Tracking
from runner.errors import BadInput, StoreError
from runner.store import client as client_module
from runner.store.client import StoreClient
from runner.store.location import StoredRun, StoreLocation, write_publish_command
from tests.factories import completed, kept
from tests.stores import LOCAL, Runs, make_anew

pytestmark = pytest.mark.usefixtures("location")

LONG = 60.0
Start = Callable[..., StoreClient]


@pytest.fixture
def start(outputs: Path) -> Iterator[Start]:
    """Clients that are closed however the test ends."""
    clients: list[StoreClient] = []

    def start_one(choice: Tracking = LOCAL, log: Path | None = None) -> StoreClient:
        clients.append(StoreClient(choice, outputs, log))
        return clients[-1]

    yield start_one
    for client in clients:
        client.close()


def publish(client: StoreClient, folder: Path) -> StoredRun:
    answer = client.publish(folder)
    client.wait()
    return answer.result()


def problem_of(client: StoreClient, folder: Path) -> str:
    with pytest.raises(StoreError) as raised:
        publish(client, folder)
    return raised.value.problem


def server_at(uri: str) -> Tracking:
    return Tracking("server", uri, "runner")


def worker_of(client: StoreClient) -> psutil.Process:
    assert client._process is not None
    return psutil.Process(client._process.pid)


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def gone(pid: int) -> bool:
    """Whether a process ends; the test's own time limit ends the waiting."""
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.02)
    return True


def python(code: str, outputs: Path, **options: object) -> subprocess.Popen[str]:
    """A parent of its own, for what can't be done to the test's process."""
    prelude = f"""
import os, sys, time
from pathlib import Path
from runner.config import Tracking
from runner.store.client import StoreClient
client = StoreClient(Tracking('local', None, 'runner'), Path({str(outputs)!r}))
"""
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code],
        stdout=subprocess.PIPE,
        text=True,
        cwd=paths.find_clone(),
        start_new_session=True,
        **options,  # type: ignore[call-overload]
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_published_record_is_in_the_store_and_its_page_is_named(
    start: Start, outputs: Path, runs: Runs
) -> None:
    stored = publish(start(), kept(completed(), outputs / "runs" / "1"))
    (run,) = runs()
    assert run.info.run_id == stored.run_id
    assert run.info.status == "FINISHED"
    assert stored.run_id in stored.page


def test_a_busy_machine_s_own_store_is_waited_for_longer_than_a_server(
    start: Start, outputs: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "SERVER_SECONDS", 0.01)
    publish(start(), kept(completed(), outputs / "runs" / "1"))
    assert len(runs()) == 1


def test_the_parent_never_imports_mlflow(outputs: Path) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    code = f"""
answer = client.publish(Path({str(folder)!r})); client.wait(); client.close()
names = ('mlflow', 'sqlalchemy', 'matplotlib', 'numpy')
print(type(answer.result()).__name__, [name for name in names if name in sys.modules])
"""
    with python(code, outputs) as parent:
        assert line(parent) == "StoredRun []"


def test_a_measurement_without_tracking_imports_no_mlflow() -> None:
    code = "import sys, runner.store.listener; print('mlflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=paths.find_clone(), capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr


def test_while_nothing_is_asked_it_uses_no_processor(start: Start) -> None:
    client = start()
    client.wait()
    worker = worker_of(client)
    before = worker.cpu_times()
    here = time.thread_time(), time.process_time()
    time.sleep(3)
    assert worker.cpu_times() == before
    spent = time.process_time() - here[1] - (time.thread_time() - here[0])
    assert spent < 0.01, "the client's own thread sleeps, too"


def test_closing_leaves_no_process(start: Start) -> None:
    before, threads = children(), threading.active_count()
    client = start()
    client.wait()
    client.close()
    assert children() == before
    assert threading.active_count() == threads
    client.close()


def test_closing_while_it_still_imports_leaves_no_process(start: Start) -> None:
    before = children()
    started = time.monotonic()
    start().close()
    assert time.monotonic() - started < 1.0
    assert children() == before


def test_what_was_asked_while_it_imports_is_done_before_it_ends(
    start: Start, outputs: Path, runs: Runs
) -> None:
    client = start()
    answer = client.publish(kept(completed(), outputs / "runs" / "1"))
    client.close()
    assert answer.result().run_id == runs()[0].info.run_id


@pytest.mark.parametrize("wait", ["client.wait()", "pass"], ids=["ready", "importing"])
def test_when_the_parent_is_killed_it_ends_too(outputs: Path, wait: str) -> None:
    code = f"{wait}; print(client._process.pid, flush=True); time.sleep({LONG})"
    with python(code, outputs) as parent:
        pid = int(line(parent))
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_a_program_that_ends_without_closing_it_is_not_held_up(outputs: Path) -> None:
    code = """
import signal
client.wait(); os.kill(client._process.pid, signal.SIGSTOP); client.publish(Path('nowhere'))
print(client._process.pid, flush=True)
"""
    with python(code, outputs) as parent:
        pid = int(line(parent))
        parent.wait(timeout=10)
    assert gone(pid)


def test_ctrl_c_in_the_terminal_does_not_reach_it(outputs: Path, runs: Runs) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
client.wait()
try:
    print('ready', flush=True)
    time.sleep({LONG})
except KeyboardInterrupt:
    answer = client.publish(Path({str(folder)!r}))
    print(type(answer.result()).__name__, flush=True)
client.close()
"""
    with python(code, outputs) as parent:
        assert line(parent) == "ready"
        os.killpg(parent.pid, signal.SIGINT)
        assert line(parent) == "StoredRun"
    assert len(runs()) == 1


def test_an_interrupted_command_waits_for_the_record_that_is_under_way(
    outputs: Path, location: StoreLocation
) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    with (folder / "long.log").open("wb") as file:
        file.truncate(30_000_000)  # a moment to copy
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
client.wait()
print(client._process.pid, flush=True)
client.publish(Path({str(folder)!r}))
try:
    client.wait()
except KeyboardInterrupt:
    client.close()
"""
    with python(code, outputs) as parent:
        worker = psutil.Process(int(line(parent)))
        while (seen := statuses(location)) != ["RUNNING"]:
            assert seen == []
        worker.suspend()
        assert statuses(location) == ["RUNNING"]
        parent.send_signal(signal.SIGINT)
        time.sleep(1.5)  # a machine so busy that the store is slow
        worker.resume()
    assert statuses(location) == ["FINISHED"]


def test_who_is_in_a_hurry_gives_a_stuck_store_up_for_all_that_it_sent(
    start: Start, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start()
    client.wait()
    stuck = worker_of(client)
    stuck.suspend()
    answers = [
        client.publish(kept(completed(), outputs / "runs" / str(number))) for number in range(3)
    ]
    monkeypatch.setattr(client_module, "HURRIED_SECONDS", 0.1)
    client.hurry()
    client.wait()  # the embedded store's own patience is a minute each
    assert ["no answer in time" in str(each.exception()) for each in answers] == [True] * 3
    assert gone(stuck.pid)


def statuses(location: StoreLocation) -> list[str]:
    assert location.database is not None
    with closing(sqlite3.connect(location.database)) as database:
        return [status for (status,) in database.execute("SELECT status FROM runs")]


def test_nothing_is_written_where_the_user_stands(
    start: Start,
    outputs: Path,
    location: StoreLocation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_anew(location)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    publish(start(), kept(completed(), outputs / "runs" / "1"))
    assert list(here.iterdir()) == []
    assert {path.name for path in outputs.iterdir()} == {
        ".mlflow.lock", "mlflow.db", "artifacts", "runs",
    }  # fmt: skip


def test_the_store_s_files_are_made_for_their_owner_alone(
    start: Start, outputs: Path, location: StoreLocation
) -> None:
    make_anew(location)
    before = os.umask(0)
    try:
        publish(start(), kept(completed(), outputs / "runs" / "1"))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in outputs.iterdir()}
    del modes["runs"]
    assert modes == {".mlflow.lock": 0o600, "mlflow.db": 0o600, "artifacts": 0o700}


def test_a_file_of_the_user_s_named_like_a_library_is_not_imported(
    start: Start, outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlflow.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    publish(start(), kept(completed(), outputs / "runs" / "1"))


def test_what_mlflow_says_goes_to_the_log(
    start: Start, location: StoreLocation, tmp_path: Path
) -> None:
    make_anew(location)
    log = tmp_path / "run.log"
    log.write_text("before\n")
    start(log=log).wait()
    assert log.read_text().startswith("before\n")
    assert "Creating initial MLflow database tables" in log.read_text()


def test_a_locked_store_is_a_problem_and_publish_brings_the_record_in_later(
    start: Start,
    outputs: Path,
    location: StoreLocation,
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "LOCK_SECONDS", 1.0)
    client = start()
    client.wait()
    folder = kept(completed(), outputs / "runs" / "1")
    with closing(sqlite3.connect(str(location.database))) as owner:
        owner.execute("BEGIN EXCLUSIVE")
        problem = problem_of(client, folder)
    assert problem == f"{outputs / 'mlflow.db'}: database is locked"
    assert (folder / "record.json").exists()
    assert runs() == []
    command = shlex.split(write_publish_command(folder, LOCAL))
    assert command[:4] == ["python", "-m", "runner", "publish"]
    environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
    subprocess.run([sys.executable, *command[1:]], check=True, env=environment)
    assert len(runs()) == 1


def test_after_a_problem_the_store_is_given_up_and_its_process_gone(
    start: Start, outputs: Path, location: StoreLocation
) -> None:
    before = children()
    (outputs / "mlflow.db").write_bytes(b"no database at all, but long enough" * 9)
    client = start()
    client.wait()
    assert children() == before
    problems = [problem_of(client, kept(completed(), outputs / "runs" / str(n))) for n in range(2)]
    assert problems == [f"{outputs / 'mlflow.db'}: file is not a database"] * 2


def test_a_record_that_can_t_be_read_keeps_no_other_out(
    start: Start, outputs: Path, runs: Runs
) -> None:
    client = start()
    bad = kept(completed("bad"), outputs / "runs" / "1")
    (bad / "record.json").write_text("{")
    answers = [client.publish(bad), client.publish(kept(completed(), outputs / "runs" / "2"))]
    client.wait()
    assert isinstance(answers[0].exception(), BadInput)
    assert "is not a valid record" in str(answers[0].exception())
    assert answers[1].result().run_id == runs()[0].info.run_id


def test_a_store_whose_place_is_a_folder_is_a_problem(
    start: Start, outputs: Path, location: StoreLocation
) -> None:
    make_anew(location)
    (outputs / "mlflow.db").mkdir()
    problem = problem_of(start(), kept(completed(), outputs / "runs" / "1"))
    assert "unable to open database file" in problem


def test_outputs_that_can_t_be_made_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    client = StoreClient(LOCAL, tmp_path / "file" / "outputs")
    assert "Not a directory" in problem_of(client, kept(completed(), tmp_path / "1"))
    client.close()


def test_a_server_that_is_not_there_is_a_problem(
    start: Start, outputs: Path, free_port: int
) -> None:
    client = start(server_at(f"http://127.0.0.1:{free_port}"))
    problem = problem_of(client, kept(completed(), outputs / "runs" / "1"))
    assert problem == f"http://127.0.0.1:{free_port}: the server does not answer"


def test_a_server_that_never_answers_is_a_problem_and_is_not_waited_for(
    start: Start, outputs: Path
) -> None:
    before = children()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = start(server_at(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        problem = problem_of(client, kept(completed(), outputs / "runs" / "1"))
    assert "no answer in time" in problem
    assert children() == before


def test_a_process_that_was_killed_is_a_problem(
    start: Start, outputs: Path, tmp_path: Path
) -> None:
    log = tmp_path / "run.log"
    client = start(log=log)
    client.wait()
    worker_of(client).kill()
    problem = problem_of(client, kept(completed(), outputs / "runs" / "1"))
    assert f"its process ended (see {log})" in problem


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
    client = StoreClient(LOCAL, small_disk)
    client.wait()
    with (small_disk / "rest").open("wb", buffering=0) as rest:
        try:
            while rest.write(bytes(4096)):
                pass
        except OSError:
            pass
    assert "database or disk is full" in problem_of(client, kept(completed(), tmp_path / "1"))
    client.close()


def test_a_read_only_store_is_a_problem(small_disk: Path, tmp_path: Path) -> None:
    first = StoreClient(LOCAL, small_disk)
    first.wait()
    first.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    client = StoreClient(LOCAL, small_disk)
    assert "Read-only file system" in problem_of(client, kept(completed(), tmp_path / "1"))
    client.close()
