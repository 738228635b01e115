"""Sweeps: in rounds, announced, unstoppable, and after any end resumed to the same table."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pandas
import psutil
import pytest

import runner
from runner import records
from runner.cell import PLAN_FILE, Plan
from runner.compose import composition
from runner.engine.open_runs import name_sweep
from runner.processes.server import TrialServer
from runner.records import SweepPlace
from tests.conftest import Cli
from tests.resuming import (
    BRIEF,
    GRID,
    LONG,
    kill_and_resume,
    only,
    start,
    steady,
    stored,
    table,
    trials_kept,
)
from tests.unit.engine.conftest import Recorder, run_plan


def planned(*words: str) -> Plan:
    said = ["-m", *words, "tracking=none", "measure.side_by_side=1"]
    return composition.compose_plan(said)


THEIRS = """
def make(batch_size):
    print(f"built with {batch_size}")
    return lambda: None
"""


def test_what_a_cell_prints_is_in_its_own_log(
    folder: Path, server: TrialServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "printing.py").write_text(THEIRS)
    monkeypatch.chdir(tmp_path)
    target = ("scenario=callable", "scenario.target=printing:make")
    plan = planned(*target, "execution=eager,session", "batch_size=4,8", *BRIEF)
    run_plan(plan, folder, server)
    logs = [(folder / str(number) / "run.log").read_text() for number in range(4)]
    assert "built with 4" in logs[0]
    assert "built with 8" in logs[1]
    assert "built with 8" not in logs[0]
    assert logs[2:] == ["", ""], "there is no session execution of it"
    for cell in records.find(folder):
        assert {"record.json", "trials.jsonl", "config.yaml"} <= {
            path.name for path in cell.iterdir()
        }


def test_figures_are_the_same_side_by_side_to_the_byte(server: TrialServer, tmp_path: Path) -> None:
    """In real processes: eager, as a graph that is shown to repeat, and under XLA."""
    found: list[list[records.Record]] = []
    for at_once in (1, 3):
        words = (
            *("scenario=large_tensor", "execution=eager,graph,xla", "scenario.size=100,300"),
            *("measure.timing_processes=0", f"measure.side_by_side={at_once}"),
        )
        said = ["-m", *words, "tracking=none"]
        plan = composition.compose_plan(said)
        place = tmp_path / str(at_once) / "12-00-00"
        assert run_plan(plan, place, server).exit_code == 0
        kept = [records.read(place / str(number)) for number in range(len(plan.cells))]
        found.append(kept)
    for alone, beside in zip(*found, strict=True):
        assert alone.metrics == beside.metrics
        assert alone.intervals == beside.intervals
        one, other = alone.allocations, beside.allocations
        assert one is not None
        assert other is not None
        assert (one.groups, one.lines) == (other.groups, other.lines)


# As a user starts them.


@dataclass(frozen=True)
class Unbroken:
    """A sweep of four cells that nobody disturbed."""

    folder: Path
    seconds: float
    shown: str
    said: str


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    outputs = tmp_path_factory.mktemp("unbroken")
    started = time.monotonic()
    process = start(outputs, *GRID, *BRIEF)
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    return Unbroken(only(outputs), time.monotonic() - started, shown, said)


def test_a_sweep_leaves_tables_report_and_a_folder_a_cell(unbroken: Unbroken) -> None:
    folder = unbroken.folder
    assert {path.name for path in folder.iterdir()} == {
        *("0", "1", "2", "3", "plan.json", "run.log", "report.html"),
        *("table.csv", "table.parquet"),
    }
    record = records.read(folder / "2")
    assert record.sweep == SweepPlace(
        id=name_sweep(folder),
        cell=2,
        swept={"scenario.iterations": "10", "batch_size": "4"},
        launcher="basic",
        in_rounds=True,
    )
    assert len(table(folder)) == 4
    assert set(table(folder).status) == {"completed"}
    for number in range(4):
        assert {path.name for path in (folder / str(number)).iterdir()} == {
            *("record.json", "trials.jsonl", "config.yaml", "run.log"),
            *("timeline.json", "allocations.folded", "allocations.csv", "report.html"),
        }
        assert (
            f"batch_size: {4 + 4 * (number % 2)}\n"
            in (folder / str(number) / "config.yaml").read_text()
        )


def test_a_sweep_announces_itself_and_ends_with_a_table(
    unbroken: Unbroken,
) -> None:
    said, shown = unbroken.said, unbroken.shown
    plan, *later = said.splitlines()
    assert plan.startswith("4 cells, 12 trials (4 memory, 8 timing), about ")
    assert all("/12 trials · " in line for line in later), "one each half minute"
    assert "\x1b" not in said + shown, "piped output holds no control codes"
    lines = shown.split("\n")
    head = lines.index(next(line for line in lines if "tensor peak" in line))
    assert lines[head].split()[:2] == ["iterations", "batch"]
    peaks = table(unbroken.folder).tensor_peak_bytes
    assert [line.split()[1] for line in lines[head + 1 : head + 5]] == ["4", "4", "8", "8"], (
        "the smallest peak first"
    )
    assert peaks[0] == peaks[2] < peaks[1] == peaks[3]
    for word in ("table.csv", "report.html", "runner compare", "viewStateShareKey", "CHART"):
        assert word in shown


def test_a_killed_and_resumed_sweep_ends_as_an_unbroken_one(
    unbroken: Unbroken, outputs: Path
) -> None:
    moments = random.Random(20260131)
    trials = kill_and_resume(outputs, (*GRID, *BRIEF), 3, unbroken.seconds, moments)
    assert all(before <= after for before, after in pairwise(trials)), "nothing finished is lost"
    resumed = only(outputs)
    pandas.testing.assert_frame_equal(steady(table(unbroken.folder)), steady(table(resumed)))
    for number in range(4):
        record = records.read(resumed / str(number))
        assert [(trial.kind, trial.index) for trial in record.trials] == [
            *(("memory", 0), ("timing", 0), ("timing", 1))
        ]
    assert stored(outputs) == [
        (f"{name_sweep(resumed)}-{number}", "FINISHED") for number in range(4)
    ]


def test_finished_cells_are_stored_on_resume(unbroken: Unbroken, cli: Cli, outputs: Path) -> None:
    cli(*GRID, *BRIEF, "tracking=none")
    # One is stored already, so that the store is there: to make it may take longer than a sweep
    # waits that has nothing to measure meanwhile.
    assert cli("publish", str(only(outputs) / "0")).returncode == 0
    assert len(stored(outputs)) == 1
    done = cli(*GRID, *BRIEF, "resume=latest")
    assert done.returncode == 0, done.stderr
    assert "4 cells, 4 of them done, 0 trials (all done) of 12 left" in done.stderr
    assert len(stored(outputs)) == 4


def begun(outputs: Path, *words: str, trials: int) -> subprocess.Popen[str]:
    """A sweep that has that many trials on the disk and goes on."""
    process = start(outputs, *words)
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        if len(trials_kept(outputs)) >= trials:
            return process
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("no trial was finished")


def test_an_interrupted_sweep_is_resumed_from_any_folder(
    unbroken: Unbroken, cli: Cli, outputs: Path
) -> None:
    process = begun(outputs, *GRID, *BRIEF, trials=9)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    shown, errors = process.communicate(timeout=LONG)
    assert process.returncode == 130
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    folder = only(outputs)
    assert "resume=" in shown
    assert "interrupted" in set(table(folder).status)
    assert len(table(folder)) == 4
    assert {status for _, status in stored(outputs)} <= {"FINISHED"}, "nothing is left RUNNING"
    words = {"completed": "FINISHED", "interrupted": "KILLED"}
    assert cli("publish", str(folder)).returncode == 0
    assert [status for _, status in stored(outputs)] == [
        words[records.read(cell).outcome.status] for cell in records.find(folder)
    ]
    done = cli(*GRID, *BRIEF, "tracking=none", f"resume={folder.relative_to(outputs)}", cwd=outputs)
    assert done.returncode == 0, done.stderr
    assert only(outputs) == folder
    assert cli("publish", str(folder)).returncode == 0
    assert [status for _, status in stored(outputs)] == ["FINISHED"] * 4
    pandas.testing.assert_frame_equal(steady(table(unbroken.folder)), steady(table(folder)))


def test_an_unreachable_store_is_one_warning_with_the_folder(cli: Cli, outputs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = ("tracking=server", f"tracking.uri=http://127.0.0.1:{port}")
    words = ("-m", "scenario=numpy_loop", "batch_size=4,8", *BRIEF)
    done = cli(*words, *server)
    assert done.returncode == 0
    assert done.stderr.count("Not in the tracking store: ") == 1
    command = f"python -m runner publish {only(outputs)} {' '.join(server)}"
    assert f"Bring it in later: {command}\n" in done.stderr


def test_a_running_sweep_can_be_resumed_by_nobody_else(cli: Cli, outputs: Path) -> None:
    words = (*GRID, "measure.timing_processes=50", "tracking=none")
    process = begun(outputs, *words, trials=1)
    done = cli(*words, "resume=latest")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LONG)
    assert done.returncode == 2
    assert "still running" in done.stderr
    assert process.returncode == 143


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["scenario=numpy_loop", "batch_size=4,8,16"], "another grid"),
        (["scenario=numpy_loop", "batch_size=8,4"], "another grid"),
        (["scenario=numpy_loop", "batch_size=4,8", "measure.steps=7"], "another grid"),
    ],
)
def test_a_different_grid_is_bad_input(
    words: Sequence[str], says: str, front_door: Cli, outputs: Path
) -> None:
    folder = outputs / "sweeps" / "2026-01-31" / "12-00-00-abcd"
    run_plan(planned("scenario=numpy_loop", "batch_size=4,8"), folder, Recorder())
    before = sorted(outputs.rglob("*"))
    done = front_door("-m", *words, "tracking=none", f"resume={folder}")
    assert done.returncode == 2
    assert says in done.stderr
    assert sorted(outputs.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["resume=/nowhere"], "is not the folder of a sweep"),
        (["tracking=none,local"], "tracking: a sweep has one"),
        (["resume=latest,null"], "resume: a sweep has one"),
        (["seed=range(0)"], "no cells"),
    ],
)
def test_what_no_sweep_can_be_is_refused(
    words: Sequence[str], says: str, front_door: Cli, outputs: Path
) -> None:
    done = front_door("-m", "scenario=numpy_loop", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert not outputs.exists()


def test_cells_that_do_not_complete_are_rows_with_their_reasons(cli: Cli, outputs: Path) -> None:
    done = cli(
        *("-m", "scenario=python_loop,numpy_loop", "execution=eager,graph", "batch_size=4"),
        *("scenario.iterations=5,2000000000", "measure.timeout_seconds=4", "tracking=none"),
        *BRIEF,
        timeout=LONG,
    )
    assert done.returncode == 1, done.stderr
    frame = table(only(outputs))
    assert len(frame) == 8
    outcomes = frame.set_index(["scenario", "execution", "iterations"]).sort_index()
    assert outcomes.status["python_loop", "eager", 5] == "completed"
    assert outcomes.status["python_loop", "eager", 2_000_000_000] == "timed_out"
    assert outcomes.status["numpy_loop", "graph", 5] == "unsupported"
    for status, reason in zip(frame.status, frame.reason, strict=True):
        assert (status == "completed") == (not isinstance(reason, str))
        assert status == "completed" or reason[:60] in done.stdout
    lines = done.stdout.strip().split("\n")
    first_failure = next(i for i, line in enumerate(lines) if "unsupported" in line)
    assert not any(" ms " in line for line in lines[first_failure:]), "failures come last"


def test_two_sweeps_make_one_frame_in_a_notebook(unbroken: Unbroken) -> None:
    folder = unbroken.folder
    frame = runner.load(folder)
    pandas.testing.assert_frame_equal(frame, pandas.read_parquet(folder / "table.parquet"))
    both = runner.load(str(folder), folder / "0")
    assert len(both) == 4, "a cell is read once"


def test_the_plan_says_what_the_sweep_was_started_with(unbroken: Unbroken) -> None:
    plan = json.loads((unbroken.folder / PLAN_FILE).read_text())
    assert plan["swept"] == ["scenario.iterations", "batch_size"]
    assert plan["cells"] == list(table(unbroken.folder).cell)


def test_a_sweep_is_not_resumed_with_changed_code(cli: Cli, outputs: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.py"
    target.write_text(
        "import tensorflow as tf\n\ndef step(width):\n"
        "    assert width < 3\n    return lambda: tf.ones([width])\n"
    )
    words = (
        *("-m", "scenario=callable", "scenario.target=mine:step", "scenario.arguments.width=1,2"),
        *("measure=quick", "measure.timing_processes=1", "tracking=none"),
    )
    assert cli(*words, cwd=tmp_path).returncode == 0
    folder = only(outputs)
    record = records.read(folder / "0")
    assert list(record.environment.code.files) == ["mine.py"]
    assert record.environment.code.changed_meanwhile == ()
    lines = (folder / "1" / "trials.jsonl").read_text().splitlines(keepends=True)
    (folder / "1" / "trials.jsonl").write_text(lines[0])  # as if it had been cut short

    target.write_text(target.read_text() + "# and more\n")
    refused = cli(*words, "resume=latest", cwd=tmp_path)
    assert refused.returncode == 2
    assert "mine.py has changed since cell 0 was measured" in refused.stderr
