"""The frame of a page: the command in it asks for the same cells again."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path

import msgspec
import pytest

from runner import paths
from runner.cell import PLAN_FILE
from runner.compose import composition
from runner.engine.grid import make_question
from runner.render.html.provenance import find_sweep_command
from tests.factories import ENVIRONMENT, completed
from tests.team_config import write_team_config


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "scenario=python_loop,while_loop", "batch_size=32,64"],
        ["-m", "scenario=script", "scenario.path=train.py", "scenario.argv=[a],[b,c]"],
        ["--config-dir", "conf", "-m", "scenario=doubling", "batch_size=2,4"],
        ["--config-dir", "conf", "experiment=doublings"],
        ["--config-dir", "conf", "--config-dir", "a folder", "-m", "scenario=doubling", "seed=1,2"],
    ],
    ids=" ".join,
)
def test_a_sweeps_command_asks_for_the_same_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNNER_CONFIG_DIR", "")
    monkeypatch.syspath_prepend(tmp_path)
    write_team_config(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "a folder").mkdir()
    plan = composition.compose_plan(words)
    (tmp_path / PLAN_FILE).write_text(json.dumps(make_question(plan)))
    own_confs = tuple(map(str, paths.list_own_confs()))
    environment = msgspec.structs.replace(ENVIRONMENT, config_dirs=own_confs)
    record = dataclasses.replace(completed(), environment=environment)

    command = find_sweep_command(tmp_path, [record])

    assert command is not None
    monkeypatch.setenv("RUNNER_CONFIG_DIR", "")  # as in another shell, on another day
    again = composition.compose_plan(shlex.split(command)[3:])
    assert [cell.experiment.cell for cell in again.cells] == [
        cell.experiment.cell for cell in plan.cells
    ]
