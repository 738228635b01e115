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
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from runner import paths
from runner.config import Tracking
from runner.store import background
from runner.store.background import BackgroundPublisher
from runner.store.location import StoreLocation, write_publish_command
from runner.store.publisher import Published
from tests.disks import mount_disk
from tests.factories import completed, kept, sweep_of_nine
from tests.stores import LOCAL, Runs, make_anew

pytestmark = pytest.mark.usefixtures("location")

LOG = "store.log"
LONG = 60.0
Start = Callable[..., BackgroundPublisher]


@pytest.fixture
def start(outputs: Path, tmp_path: Path) -> Iterator[Start]:
    """Processes that are ended however the test ends."""
    started: list[BackgroundPublisher] = []

    def start_one(choice: Tracking = LOCAL) -> BackgroundPublisher:
        started.append(BackgroundPublisher(choice, outputs, tmp_path / LOG))
        return started[-1]

    yield start_one
    for publisher in started:
        publisher.close()


def publish(publisher: BackgroundPublisher, *folders: Path) -> list[Published]:
    for folder in folders:
        publisher.publish(folder)
    return publisher.finish()


def problem_of(publisher: BackgroundPublisher, folder: Path) -> str:
    published = publish(publisher, folder)[-1]
    assert published.page is None
    assert published.problem is not None
    return published.problem


def server_at(uri: str) -> Tracking:
    return Tracking("server", uri, "runner")


def process_of(publisher: BackgroundPublisher) -> psutil.Process:
    assert publisher._process is not None
    return psutil.Process(publisher._process.pid)


def wait_until_ready(publisher: BackgroundPublisher) -> psutil.Process:
    """Wait until the store is open: until it has said that there is no such folder."""
    publisher.publish(Path("nowhere"))
    while publisher._count_bytes() < 2:
        time.sleep(0.02)
    return process_of(publisher)


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
from runner.store.background import BackgroundPublisher
outputs = Path({str(outputs)!r})
publisher = BackgroundPublisher(Tracking('local', None, 'runner'), outputs, outputs / 'log')
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
    (published,) = publish(start(), kept(completed(), outputs / "runs" / "1"))
    (run,) = runs()
    assert run.info.status == "FINISHED"
    assert published.page is not None
    assert run.info.run_id in published.page


def test_a_sweep_s_line_brings_its_table_and_its_view(
    start: Start, outputs: Path, runs: Runs
) -> None:
    sweep = outputs / "sweeps" / "2025-01-31" / "12-00-00"
    cells = [kept(record, sweep / str(i)) for i, record in enumerate(sweep_of_nine()[:2])]
    *_, whole = publish(start(), *cells, sweep)
    assert whole.problem is None
    assert whole.charts is not None
    assert "viewStateShareKey=runner-sweep-" in whole.charts
    assert len(runs()) == 2 + 1


def test_the_parent_never_imports_mlflow(outputs: Path) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    code = f"""
publisher.publish(Path({str(folder)!r}))
(published,) = publisher.finish()
names = ('mlflow', 'sqlalchemy', 'matplotlib', 'numpy')
print(published.problem, [name for name in names if name in sys.modules])
"""
    with python(code, outputs) as parent:
        assert line(parent) == "None []"


def test_a_measurement_without_tracking_imports_no_mlflow() -> None:
    code = "import sys, runner.store.listener; print('mlflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=paths.find_clone(), capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr


def test_while_nothing_is_asked_it_uses_no_processor(start: Start) -> None:
    process = wait_until_ready(start())
    before = process.cpu_times()
    time.sleep(2)
    assert process.cpu_times() == before


def test_a_paused_process_does_nothing_and_then_all_that_it_was_asked(
    start: Start, outputs: Path, runs: Runs
) -> None:
    publisher = start()
    process = wait_until_ready(publisher)
    publisher.pause()
    while process.status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    before = process.cpu_times()
    publisher.publish(kept(completed(), outputs / "runs" / "1"))
    time.sleep(1)
    assert (process.cpu_times(), runs()) == (before, [])
    publisher.resume()
    assert publisher.finish()[-1].problem is None
    assert len(runs()) == 1


def test_more_folders_than_a_pipe_holds_are_asked_for_without_waiting(start: Start) -> None:
    publisher = start()
    process = wait_until_ready(publisher)
    publisher.pause()
    nowhere = Path("/nowhere", *["a long name of a folder"] * 20)
    for number in range(1000):
        publisher.publish(nowhere / str(number))
    assert len(publisher._unsent) > 100_000
    answers = publisher.finish()
    assert [Path(answer.folder).name for answer in answers[1:]] == [*map(str, range(1000))]
    assert gone(process.pid)


def test_closing_leaves_no_process(start: Start) -> None:
    before = children()
    publisher = start()
    wait_until_ready(publisher)
    publisher.close()
    assert children() == before
    publisher.close()


def test_closing_while_it_still_imports_leaves_no_process(start: Start) -> None:
    before = children()
    start().close()
    assert children() == before


@pytest.mark.parametrize("do", ["ready", "importing", "paused"])
def test_when_the_parent_is_killed_it_ends_too(outputs: Path, do: str) -> None:
    code = f"""
if {do!r} == 'ready':
    publisher.publish(Path('nowhere'))
    while publisher._count_bytes() < 2:
        time.sleep(0.02)
if {do!r} == 'paused':
    publisher.pause()
print(publisher._process.pid, flush=True); time.sleep({LONG})
"""
    with python(code, outputs) as parent:
        pid = int(line(parent))
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_a_program_that_ends_without_closing_it_is_not_held_up(outputs: Path) -> None:
    code = """
publisher.pause(); publisher.publish(Path('nowhere')); print(publisher._process.pid, flush=True)
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
try:
    print('ready', flush=True)
    time.sleep({LONG})
except KeyboardInterrupt:
    publisher.publish(Path({str(folder)!r}))
    print(publisher.finish()[0].problem, flush=True)
"""
    with python(code, outputs) as parent:
        assert line(parent) == "ready"
        os.killpg(parent.pid, signal.SIGINT)
        assert line(parent) == "None"
    assert len(runs()) == 1


def test_an_interrupted_command_waits_for_the_record_that_is_under_way(
    start: Start, outputs: Path, location: StoreLocation
) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    with (folder / "long.log").open("wb") as file:
        file.truncate(30_000_000)  # a moment to copy
    publisher = start()
    publisher.publish(folder)
    while (seen := statuses(location)) != ["RUNNING"]:
        assert seen == []
    publisher.pause()
    assert statuses(location) == ["RUNNING"]
    assert publisher.finish(seconds=10)[0].problem is None
    assert statuses(location) == ["FINISHED"]


def test_who_is_in_a_hurry_gives_a_stuck_store_up_for_all_that_it_sent(
    start: Start, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = start()
    stuck = wait_until_ready(publisher)
    stuck.suspend()
    monkeypatch.setattr(publisher, "resume", lambda: None)
    for number in range(3):
        publisher.publish(kept(completed(), outputs / "runs" / str(number)))
    _, *answers = publisher.finish(seconds=0.1)  # by itself it would wait for a minute
    problem = f"{outputs / 'mlflow.db'}: no answer in time"
    assert [answer.problem for answer in answers] == [problem] * 3
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
    log = tmp_path / LOG
    log.write_text("before\n")
    start().finish()
    assert log.read_text().startswith("before\n")
    assert "Creating initial MLflow database tables" in log.read_text()


def test_a_locked_store_is_a_problem_and_publish_brings_the_record_in_later(
    start: Start,
    outputs: Path,
    location: StoreLocation,
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "LOCK_SECONDS", 1.0)
    publisher = start()
    wait_until_ready(publisher)
    folder = kept(completed(), outputs / "runs" / "1")
    with closing(sqlite3.connect(str(location.database))) as owner:
        owner.execute("BEGIN EXCLUSIVE")
        problem = problem_of(publisher, folder)
    assert problem == f"{outputs / 'mlflow.db'}: database is locked"
    assert (folder / "record.json").exists()
    assert runs() == []
    command = shlex.split(write_publish_command(folder, LOCAL))
    assert command[:4] == ["python", "-m", "runner", "publish"]
    environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
    subprocess.run([sys.executable, *command[1:]], check=True, env=environment)
    assert len(runs()) == 1


def test_after_a_problem_of_the_store_s_its_process_ends(
    start: Start, outputs: Path, location: StoreLocation
) -> None:
    (outputs / "mlflow.db").write_bytes(b"no database at all, but long enough" * 9)
    publisher = start()
    process = process_of(publisher)
    assert gone(process.pid)
    folders = [kept(completed(), outputs / "runs" / str(number)) for number in range(2)]
    (published,) = publish(publisher, *folders)
    assert published.problem == f"{outputs / 'mlflow.db'}: file is not a database"
    assert published.is_final


def test_a_record_that_can_t_be_read_keeps_no_other_out(
    start: Start, outputs: Path, runs: Runs
) -> None:
    bad = kept(completed("bad"), outputs / "runs" / "1")
    (bad / "record.json").write_text("{")
    first, second = publish(start(), bad, kept(completed(), outputs / "runs" / "2"))
    assert "is not a valid record" in (first.problem or "")
    assert not first.is_final
    assert runs()[0].info.run_id in (second.page or "")


def test_a_store_whose_place_is_a_folder_is_a_problem(
    start: Start, outputs: Path, location: StoreLocation
) -> None:
    make_anew(location)
    (outputs / "mlflow.db").mkdir()
    problem = problem_of(start(), kept(completed(), outputs / "runs" / "1"))
    assert "unable to open database file" in problem


def test_outputs_that_can_t_be_made_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    publisher = BackgroundPublisher(LOCAL, tmp_path / "file" / "outputs", tmp_path / LOG)
    assert "Not a directory" in problem_of(publisher, kept(completed(), tmp_path / "1"))


def test_a_server_that_is_not_there_is_a_problem(
    start: Start, outputs: Path, free_port: int
) -> None:
    publisher = start(server_at(f"http://127.0.0.1:{free_port}"))
    problem = problem_of(publisher, kept(completed(), outputs / "runs" / "1"))
    assert problem == f"http://127.0.0.1:{free_port}: the server does not answer"


def test_a_server_that_never_answers_is_a_problem_and_is_not_waited_for(
    start: Start, outputs: Path
) -> None:
    before = children()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        publisher = start(server_at(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        problem = problem_of(publisher, kept(completed(), outputs / "runs" / "1"))
    assert "the server does not answer" in problem
    assert children() == before


def test_a_process_that_was_killed_is_a_problem(
    start: Start, outputs: Path, tmp_path: Path
) -> None:
    publisher = start()
    wait_until_ready(publisher).kill()
    problem = problem_of(publisher, kept(completed(), outputs / "runs" / "1"))
    assert f"its process ended (see {tmp_path / LOG})" in problem


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for a store and little more."""
    with mount_disk(tmp_path / "disk", "1400k") as disk:
        yield disk


def test_a_full_disk_is_a_problem(small_disk: Path, tmp_path: Path) -> None:
    publisher = BackgroundPublisher(LOCAL, small_disk, tmp_path / LOG)
    wait_until_ready(publisher)
    with (small_disk / "rest").open("wb", buffering=0) as rest:
        try:
            while rest.write(bytes(4096)):
                pass
        except OSError:
            pass
    assert "database or disk is full" in problem_of(publisher, kept(completed(), tmp_path / "1"))


def test_a_read_only_store_is_a_problem(small_disk: Path, tmp_path: Path) -> None:
    BackgroundPublisher(LOCAL, small_disk, tmp_path / LOG).finish()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    publisher = BackgroundPublisher(LOCAL, small_disk, tmp_path / LOG)
    assert "Read-only file system" in problem_of(publisher, kept(completed(), tmp_path / "1"))
