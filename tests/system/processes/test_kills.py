"""The server is killed again and again: no trial stalls or is lost, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.killed_server import kill_often


@pytest.mark.timeout(900)
def test_no_trial_stalls_whose_server_is_killed(tmp_path: Path) -> None:
    kills = list(kill_often(12, tmp_path, seed=1))
    assert [kill for kill in kills if not kill.is_fine] == []
    assert list(tmp_path.glob("runner-*")) == []
