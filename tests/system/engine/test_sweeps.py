"""Sweeps as a user starts them: announced, and after any end resumed to the same table."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pandas
import psutil
import pytest

import runner
from runner import records
from runner.cell import PLAN_FILE
from runner.engine.open_runs import name_sweep
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
    assert stored(outputs) == list_finished(resumed)


def list_finished(sweep: Path) -> list[tuple[str, str]]:
    """What MLflow has of a sweep that ended: its own run above those of its four cells."""
    name = name_sweep(sweep)
    return [(record, "FINISHED") for record in (name, *(f"{name}-{n}" for n in range(4)))]


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
    above, *cells = list_finished(folder)
    begun_above = (above[0], "SCHEDULED")
    assert set(stored(outputs)) <= {begun_above, *cells}, "nothing is left RUNNING"
    words = {"completed": "FINISHED", "interrupted": "KILLED"}
    assert cli("publish", str(folder)).returncode == 0
    assert stored(outputs) == [
        (above[0], "KILLED"),
        *((name, words[records.read(folder / name[-1]).outcome.status]) for name, _ in cells),
    ]
    done = cli(*GRID, *BRIEF, "tracking=none", f"resume={folder.relative_to(outputs)}", cwd=outputs)
    assert done.returncode == 0, done.stderr
    assert only(outputs) == folder
    assert cli("publish", str(folder)).returncode == 0
    assert stored(outputs) == [above, *cells]
    pandas.testing.assert_frame_equal(steady(table(unbroken.folder)), steady(table(folder)))


def test_a_running_sweep_can_be_resumed_by_nobody_else(cli: Cli, outputs: Path) -> None:
    words = (*GRID, "measure.timing_processes=50", "tracking=none")
    process = begun(outputs, *words, trials=1)
    done = cli(*words, "resume=latest")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LONG)
    assert done.returncode == 2
    assert "still running" in done.stderr
    assert process.returncode == 143


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
