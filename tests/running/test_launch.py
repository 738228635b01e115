"""Every launcher that distributes keeps the same promises as the sweep that runs here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pandas
import psutil
import pytest

from runner import records
from tests.conftest import Cli
from tests.resuming import BRIEF, LONG, only, start, steady, stored, table, trials_kept

LAUNCHERS = {
    "joblib": ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"],
    "submitit_local": ["hydra/launcher=submitit_local"],
}
GRID = (
    "-m",
    "scenario=python_loop,tensor_per_step",
    "execution=graph",
    "batch_size=4",
    *BRIEF,
)

pytestmark = pytest.mark.parametrize("launcher", LAUNCHERS)


def test_the_table_is_the_same_as_that_of_a_sweep_here(
    launcher: str, cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    done = cli(*GRID, *LAUNCHERS[launcher], cwd=tmp_path)
    assert done.returncode == 1, "tensor_per_step has no graph execution"
    assert done.stderr.startswith("2 cells, 3 trials (1 memory, 2 timing), about ")
    assert "1 of 2 cells completed in " in done.stdout
    assert f" under {launcher}: not in rounds" in done.stdout
    folder = only(outputs)
    assert [path for path in tmp_path.iterdir() if path != outputs] == []
    record = records.read(folder / "0")
    assert record.sweep is not None
    assert (record.sweep["launcher"], record.sweep["in_rounds"]) == (launcher, False)
    kinds = [trial.kind for trial in record.trials]
    assert kinds[-3:] == ["memory", "timing", "timing"]
    assert set(kinds[:-2]) == {"memory"}, "a graph's peak takes several to be known"
    assert [status for _, status in stored(outputs)] == ["FINISHED", "FAILED"]
    again = cli(*GRID, "tracking=none", f"resume={folder}")
    assert "2 cells, 2 of them done" in again.stderr, "a sweep may go on without its launcher"
    cli(*GRID, "tracking=none")
    (here,) = (path for path in outputs.glob("sweeps/*/*") if path != folder)
    pandas.testing.assert_frame_equal(steady(table(folder)), steady(table(here)))


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
    launcher: str, cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    words = ("-m", "scenario=callable", "scenario.target=killer:step", "batch_size=4,8", *BRIEF)
    words = (*words, "tracking=none", *LAUNCHERS[launcher], "hydra.sweeper.max_batch_size=1")
    done = cli(*words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    frame = table(only(outputs))
    assert list(frame.status) == ["completed", "killed"]
    assert "its job ended without a record" in frame.reason[1]
    done = cli(*words, "resume=latest", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(table(only(outputs)).status) == {"completed"}


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


def test_jobs_end_with_a_launcher_on_this_machine_that_was_killed(
    launcher: str, outputs: Path
) -> None:
    if launcher != "joblib":
        pytest.skip("its jobs are a cluster's to end")
    process = start(
        outputs,
        *("-m", "scenario=tensor_per_step", "batch_size=4,8,16", "measure.timing_processes=50"),
        *(*LAUNCHERS[launcher], "tracking=none"),
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
