"""What `latest` is, also after the clock was wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.engine import folders
from tests.factories import completed, kept


def test_a_folder_of_the_future_is_not_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_OUTPUTS", str(tmp_path))
    only = kept(completed(), tmp_path / "runs" / "2536-01-01" / "10-00-00-a1b2")
    assert folders.find_folder("latest") == only, "the only one there is"
    now = kept(completed(), tmp_path / "runs" / "2025-01-31" / "10-00-00-a1b2")
    assert folders.find_folder("latest") == now
    for name in ("2536-01-01", "2025-01-31"):
        plan = tmp_path / "sweeps" / name / "10-00-00-a1b2" / folders.PLAN_FILE
        plan.parent.mkdir(parents=True)
        plan.touch()
    assert folders.find_resumable("latest", "sweeps", "sweep").parent.name == "2025-01-31"
