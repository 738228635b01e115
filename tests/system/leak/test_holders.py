"""What holds is shown by emptying it: holders that are hard to see, the cheap ones in one step.

All twelve, each alone and several times: `python -m tests.benchmarks leak`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.processes.server import TrialServer
from tests.integration.leak import planted_holders
from tests.integration.leak.planted_holders import HOLDERS, TOGETHER, describe, grade
from tests.system.leak.test_planted import sought


def test_holders_give_back_what_they_hold_and_nobody_else_is_accused(
    server: TrialServer, tmp_path: Path
) -> None:
    leak = sought(server, "together", tmp_path, planted_holders.__name__)
    held = [describe(each) for each in leak.main_holders if each.is_held]
    places = [HOLDERS[name].names for name in TOGETHER]
    for names in places:
        assert any(all(part in each for part in names) for each in held), (names, held)
    assert all(any(names[0] in each for names in places) for each in held), held


@pytest.mark.parametrize("name", ["closure_in_thread", "cpp_resource"])
def test_what_cannot_be_emptied_is_not_said_to_hold(
    server: TrialServer, tmp_path: Path, name: str
) -> None:
    found = sought(server, name, tmp_path, planted_holders.__name__)
    assert found.verdict == "grows", found.sentence
    assert grade(name, found) == "right", found.holders
    assert not any(each.is_held for each in found.main_holders)
