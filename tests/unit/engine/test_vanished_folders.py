"""What vanishes under a measurement ends it in order, and what was written is kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner import paths, records
from runner.cell import TrialSpec
from runner.compose import composition
from runner.errors import WriteError
from runner.records import TRIALS_FILE
from tests.unit.engine.conftest import Recorder, run_plan

WORDS = ("-m", "scenario=tensor_per_step", "seed=1,2", "tracking=none", "measure.side_by_side=1")


def lose_when_asked_twice(folder: Path) -> Recorder:
    def lose(spec: TrialSpec) -> None:
        if len(server.asked) == 2:
            shutil.rmtree(folder / "1")

    server = Recorder(lose)  # type: ignore[arg-type]
    return server


def test_a_folder_that_vanishes_stops_in_order_with_a_remedy(folder: Path) -> None:
    result = run_plan(composition.compose_plan(WORDS), folder, lose_when_asked_twice(folder))
    assert isinstance(result.stopped, WriteError)
    assert result.exit_code == 1
    assert result.stopped.problem.startswith(
        f"{folder / '1' / TRIALS_FILE}: cannot be used (No such"
    )
    assert "resume=latest" in result.stopped.remedy
    assert len(list(records.read_trials(folder / "0"))) == 1


def test_what_vanished_is_measured_anew(folder: Path) -> None:
    plan = composition.compose_plan(WORDS)
    run_plan(plan, folder, lose_when_asked_twice(folder))
    assert run_plan(plan, folder, Recorder()).exit_code == 0
    assert records.read(folder / "1").outcome.completed


def test_a_path_is_spelled_whole_where_the_working_folder_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    assert paths.shorten(tmp_path / "file") == str(tmp_path / "file")
