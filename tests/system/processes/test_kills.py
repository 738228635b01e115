"""Whatever is killed at whatever moment, nothing is lost, doubled, RUNNING or left behind."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from runner.records import Status
from tests.benchmarks import kills
from tests.factories import completed, kept


@pytest.mark.timeout(900)
def test_random_kills_lose_double_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "TIMING", 1)
    monkeypatch.setattr(kills, "PLANNED", Counter([("memory", 0), ("timing", 0)]))
    report = kills.kill_often(5, tmp_path, seed=3)
    assert report.problems == []
    assert len(report.kills) == 5


@pytest.fixture
def lane(tmp_path: Path) -> kills.Lane:
    (tmp_path / "scratch").mkdir()
    return kills.Lane(tmp_path / "outputs", tmp_path / "scratch", random.Random(0), 0)


def test_what_is_left_behind_is_told(lane: kills.Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "MOST_SECONDS", 0.1)
    (lane.scratch / "pymp-abcd").mkdir()
    with subprocess.Popen(["sleep", "600"], env={**os.environ, **lane.environment}) as left:
        try:
            deadline = time.monotonic() + 10  # its environment can be read a moment after it began
            while not list(lane._list_processes()) and time.monotonic() < deadline:
                time.sleep(0.01)
            lane.check_leavings(["command"])
        finally:
            left.kill()
    processes, files = lane.report.problems
    assert "sleep 600" in processes
    assert "pymp-abcd" in files


def test_a_cell_that_is_missing_or_doubled_is_told(
    lane: kills.Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = lane.outputs / "sweeps" / "2026-01-31" / "12-00-00-abcd"
    kept(completed(), sweep / "0")
    (sweep / "plan.json").write_text('["seed=0"]')
    lane.check_cells()
    missing, doubled = lane.report.problems
    assert "1 cells of 4" in missing
    assert "('timing', 2): 1" in doubled, "three timing trials where six were asked for"


def test_a_command_that_does_nothing_is_a_stall(
    lane: kills.Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "MOST_SECONDS", 0.1)
    with subprocess.Popen(["sleep", "600"], text=True) as command:
        try:
            lane.wait_for_more(command, "server")
        finally:
            command.kill()
    assert [kill.is_stall for kill in lane.report.kills] == [True]
    assert "nothing went on" in lane.report.problems[0]


def test_more_killed_cells_than_kills_are_told(tmp_path: Path) -> None:
    report = kills.Report(cells=Counter({Status.KILLED: 2}), kills=[kills.Kill("child", 0.1)])
    assert kills.check_counts(report) == ["2 cells ended by 1 kills of a child"]
