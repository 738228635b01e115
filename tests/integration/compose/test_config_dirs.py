"""A scenario of a team's own is measured, and its record says how to repeat it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.render.files.command import write_command
from tests.conftest import MeasureWords
from tests.team_config import write_team_config


def test_a_record_of_it_says_how_to_repeat_it_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure: MeasureWords
) -> None:
    monkeypatch.setenv("RUNNER_CONFIG_DIR", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    conf = write_team_config(tmp_path)
    record = measure("--config-dir", "conf", "scenario=doubling")
    assert record.metrics["tensor_peak_bytes"] == 2 * 4000
    assert record.spec.target == "theirs_of_the_test.Doubling"
    assert f"runner --config-dir {conf} scenario=doubling " in write_command(record)
