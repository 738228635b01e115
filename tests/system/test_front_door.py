"""The product as a user starts and ends it: signals, pipes, a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runner import paths, records
from tests.disks import mount_disk

ENDLESS = ("scenario=python_loop", "scenario.iterations=2000000000", "tracking=none")


def _start(words: tuple[str, ...], outputs: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
    )
    parent = psutil.Process(process.pid)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # until the server has forked a child
        if any(each.ppid() != process.pid for each in parent.children(recursive=True)):
            return process
        time.sleep(0.1)
    raise AssertionError("no trial was started")


def _family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_all_processes_and_keeps_what_is_finished(
    number: signal.Signals, code: int, outputs: Path
) -> None:
    process = _start(ENDLESS, outputs)
    family = _family(process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    (folder,) = (outputs / "runs").glob("*/*")
    assert records.read(folder).outcome.status == "interrupted"


def test_after_a_sigkill_of_the_parent_neither_server_nor_child_lives_on(outputs: Path) -> None:
    process = _start((*ENDLESS[:2], "tracking=local"), outputs)
    deadline = time.monotonic() + 60
    while len(family := _family(process)) < 3:  # server, child, tracking store
        assert time.monotonic() < deadline, family
        time.sleep(0.1)
    process.kill()
    process.communicate(timeout=30)
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_a_sweep_is_planned_leaves_nothing(
    outputs: Path, number: int, code: int
) -> None:
    words = ["-m", "scenario=tape", "tracking=none", "seed=range(0,100000)"]
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", *words],
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(3)  # of the minute, nearly, that so many cells take
    assert not list(outputs.glob("*")), "nothing is written before all of it is checked"
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert said.startswith("runner: stopped by ")
    assert not list(outputs.glob("sweeps"))


def test_a_pipe_ends_with_the_run_though_the_code_left_a_daemon_behind(
    outputs: Path, tmp_path: Path
) -> None:
    (tmp_path / "leaves.py").write_text(
        "import subprocess, sys\n"
        "def daemon():\n"
        "    nap = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "    subprocess.Popen(nap, start_new_session=True, close_fds=False)\n"
        "    return lambda: None\n"
    )
    line = (
        f"{sys.executable} -m runner scenario=callable scenario.target=leaves:daemon "
        "tracking=none 2>&1 | cat"
    )
    done = subprocess.run(
        line,
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs), "PYTHONPATH": str(paths.find_clone())},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "record.json" in done.stdout  # it is there, and the pipe has ended


def test_ctrl_c_while_tensorflow_loads_leaves_no_folder(outputs: Path, tmp_path: Path) -> None:
    temporary = tmp_path / ("temporary" * 12)  # too long for the path of a socket
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", *ENDLESS],
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs), "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(outputs.glob("runs/*/*/*.log")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)  # of the four seconds and more that TensorFlow takes
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    assert not list(temporary.glob("runner-trial-*"))


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for a log and a trial, and not for a record as well."""
    with mount_disk(tmp_path / "disk", "16k") as disk:
        yield disk


def test_a_full_disk_is_one_message_that_says_what_is_kept_and_how_to_go_on(
    full_disk: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runner", "scenario=tensor_per_step", "tracking=none"],
        env={**os.environ, "RUNNER_OUTPUTS": str(full_disk)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "the disk is full; every trial that had ended before is kept" in done.stderr
    assert "Make room, then go on" in done.stderr
    assert "Traceback" not in done.stderr
