"""The product as a user starts it: bad input, interruption, and what a good run leaves behind."""

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
from tests.conftest import Cli

ENDLESS = ("scenario=python_loop", "scenario.iterations=2000000000", "tracking=none")

REFUSED = {
    "a run": (["scenario=while_loop", "batch_size=0"], "out of range"),
    "a sweep": (["-m", "scenario=python_loop", "batch_size=1,0"], "out of range"),
    "a mistyped verb": (["lst"], "did you mean 'list'"),
    "a verb's flag": (["list", "--jsn"], "list: unrecognized arguments: --jsn"),
    "a verb's words": (["claims", "seed=0x10"], "not a whole number"),
    "a verb that measures": (["leak", "scenario=nothing"], "no scenario of that name"),
}
"""A handful of real command lines; all others are refused in `tests/unit/test_front_door.py`."""


@pytest.mark.parametrize("case", REFUSED)
def test_a_command_line_is_refused_in_one_message(
    case: str, cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    words, says = REFUSED[case]
    done = cli(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert says in done.stderr
    assert done.stderr.startswith("runner: ")
    assert len(done.stderr.strip().splitlines()) == 2, "what and where; what to do"
    assert not outputs.exists()
    assert list(tmp_path.iterdir()) == []


HEAVY = {"tensorflow", "numpy", "pandas", "mlflow"}


@pytest.mark.parametrize(
    ("words", "code", "unneeded"),
    [
        (["scenario=while_loop", "batch_size=0"], 2, HEAVY),
        (["leak", "scenario=while_loop", "batch_size=0"], 2, HEAVY),
        (["fit", "vary=batchsize", "scenario=tape", "device.memory_limit_mb=64"], 2, HEAVY),
        (["lst"], 2, {*HEAVY, "hydra", "omegaconf"}),
        (["leak", "--help"], 0, {*HEAVY, "hydra", "omegaconf"}),
    ],
)
def test_an_answer_loads_nothing_that_only_a_measurement_needs(
    words: list[str], code: int, unneeded: set[str]
) -> None:
    script = (
        "import sys; from runner.__main__ import main\n"
        "try: code = main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert done.returncode == code
    assert unneeded.isdisjoint(done.stderr.splitlines()[-1].split())


def test_a_run_leaves_record_trials_config_and_log(cli: Cli, outputs: Path, tmp_path: Path) -> None:
    done = cli("scenario=while_loop", "tracking=none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout, "piped output holds no control codes"
    (folder,) = (outputs / "runs").glob("*/*")
    assert {path.name for path in folder.iterdir()} == {
        *("record.json", "trials.jsonl", "config.yaml", "run.log"),
        *("timeline.json", "allocations.folded", "allocations.csv"),
    }
    record = records.read(folder)
    assert record.outcome.completed
    kinds = [trial.kind for trial in record.trials]
    assert kinds[-4:] == ["memory", "timing", "timing", "timing"]
    assert set(kinds[:-3]) == {"memory"}, "a graph's peak takes several to be known"
    assert record.spec.execution == "graph", "while_loop's natural execution"
    assert str(record.metrics["tensor_peak_bytes"]).isdigit()
    assert all(name in record.metrics for name in ("step_seconds", "host_peak_bytes"))
    assert set(record.unavailable) == {
        name for name, value in record.metrics.items() if value is None
    }
    assert list(tmp_path.iterdir()) == [outputs], "nothing lands where the user stands"


def test_the_cell_does_not_depend_on_where_its_record_goes(warm_cli: Cli, outputs: Path) -> None:
    words = ("scenario=numpy_loop", "measure.timing_processes=1", "measure.host_processes=0")
    warm_cli(*words, "tracking=none")
    warm_cli(*words, "tracking=local")
    warm_cli(*words, "tracking=none", "seed=1")
    cells = [records.read(folder).cell for folder in sorted((outputs / "runs").glob("*/*"))]
    assert cells[0] == cells[1] != cells[2]


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
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


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


def test_a_run_that_fails_exits_1_and_says_where_its_log_is(warm_cli: Cli, outputs: Path) -> None:
    done = warm_cli(*ENDLESS, "measure.timeout_seconds=1")
    assert done.returncode == 1
    assert "timed out in first_call" in done.stdout
    assert "run.log" in done.stdout
    (folder,) = (outputs / "runs").glob("*/*")
    record = records.read(folder)
    assert record.outcome.status == "timed_out"
    assert record.metrics["tensor_peak_bytes"] is None
    assert "deadline" in record.unavailable["tensor_peak_bytes"]


def test_tensorflow_loads_while_the_words_are_read_and_bad_words_leave_no_process(
    tmp_path: Path,
) -> None:
    code = """
import os, sys
from runner.compose import composition
from runner.processes import process_tree
from runner.__main__ import main
began, plan = [], composition.compose_plan
def planned(*words):
    began.extend(process_tree.list_children(os.getpid()))
    return plan(*words)
composition.compose_plan = planned
code = main(["scenario=while_loop", "batch_size=0"])
print(code, [os.path.exists(f"/proc/{pid}") for pid in began])
"""
    environment = {**os.environ, "RUNNER_OUTPUTS": str(tmp_path / "outputs")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.split() == ["2", "[False]"], done.stderr
    assert not (tmp_path / "outputs").exists()
