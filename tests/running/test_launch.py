"""Launchers whose jobs are processes of this machine: what ends them, and what they end.
`tests/launchers/` holds all launchers against a sweep that runs without one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from runner import records
from tests.conftest import Cli
from tests.resuming import BRIEF, LONG, only, start, table, trials_kept

LAUNCHERS = {
    "joblib": ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"],
    "submitit_local": ["hydra/launcher=submitit_local"],
}
each_launcher = pytest.mark.parametrize("launcher", LAUNCHERS)


@each_launcher
def test_bad_input_in_one_cell_refuses_the_sweep_before_a_job_is_sent(
    launcher: str, cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    done = cli(*("-m", "scenario=numpy_loop", "batch_size=4,0", *LAUNCHERS[launcher]), cwd=tmp_path)
    assert done.returncode == 2
    assert "out of range" in done.stderr
    assert list(tmp_path.iterdir()) == []


KILLER = """
import os, signal
from pathlib import Path

def step(batch_size):
    flag = Path(__file__).with_name("killed")
    if batch_size == 8 and not flag.exists():
        flag.touch()
        server = os.getppid()  # whose parent is the job
        os.kill(int(Path(f"/proc/{server}/stat").read_text().split()[3]), signal.SIGKILL)
"""


def test_a_job_that_is_killed_costs_its_own_cell_until_it_is_resumed(
    cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    words = ("-m", "scenario=callable", "scenario.target=killer:step", "batch_size=8,4", *BRIEF)
    words = (*words, "tracking=none", *LAUNCHERS["submitit_local"])
    done = cli(*words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    frame = table(only(outputs))
    assert list(frame.status) == ["killed", "completed"], "the other job is waited for"
    assert "its job ended without a record" in frame.reason[0]
    done = cli(*words, "resume=latest", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(table(only(outputs)).status) == {"completed"}


@each_launcher
def test_an_interrupted_launch_leaves_no_process_and_can_be_resumed(
    launcher: str, cli: Cli, outputs: Path
) -> None:
    words = (*("-m", "scenario=tensor_per_step", "batch_size=4,8,16"), *BRIEF, "tracking=none")
    process = start(outputs, *words, *LAUNCHERS[launcher])
    deadline = time.monotonic() + LONG
    while not trials_kept(outputs) and time.monotonic() < deadline:
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    folder = only(outputs)
    assert len(table(folder)) == 3
    assert f"resume={os.path.relpath(folder)}" in shown or f"resume={folder}" in shown
    done = cli(*words, *LAUNCHERS[launcher], f"resume={folder}")
    assert done.returncode == 0, done.stderr
    for number in range(3):
        trials = records.read(folder / str(number)).trials
        assert [trial.index for trial in trials] == [0, 0, 1], "none was run twice"


def test_jobs_end_with_a_launcher_on_this_machine_that_was_killed(outputs: Path) -> None:
    process = start(
        outputs,
        *("-m", "scenario=tensor_per_step", "batch_size=4,8,16", "measure.timing_processes=50"),
        *(*LAUNCHERS["joblib"], "tracking=none"),
    )
    deadline = time.monotonic() + LONG
    while not trials_kept(outputs) and time.monotonic() < deadline:
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) > 2
    process.kill()
    process.communicate(timeout=LONG)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
