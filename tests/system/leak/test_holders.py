"""What holds is shown by emptying it: holders that are hard to see, the cheap ones in one step.

All twelve, each alone and several times: `python -m tests.benchmarks leak`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.leak.findings import Leak
from runner.processes.server import TrialServer
from tests.integration.leak import planted_holders
from tests.integration.leak.planted_holders import HOLDERS, TOGETHER, describe, grade
from tests.system.leak.test_planted import sought


@pytest.fixture(scope="module")
def leak(server: TrialServer, tmp_path_factory: pytest.TempPathFactory) -> Leak:
    folder = tmp_path_factory.mktemp("together")
    return sought(server, "together", folder, planted_holders.__name__)


@pytest.mark.parametrize("name", TOGETHER)
def test_a_holder_is_named_that_gave_back_what_it_held(leak: Leak, name: str) -> None:
    held = [describe(each) for each in leak.main_holders if each.is_held]
    assert any(all(part in each for part in HOLDERS[name].names) for each in held), held


def test_nobody_else_is_accused(leak: Leak) -> None:
    names = [part for name in TOGETHER for part in HOLDERS[name].names]
    held = [describe(each) for each in leak.main_holders if each.is_held]
    assert all(any(part in each for part in names) for each in held), held


@pytest.mark.parametrize("name", ["closure_in_thread", "cpp_resource"])
def test_what_cannot_be_emptied_is_not_said_to_hold(
    server: TrialServer, tmp_path: Path, name: str
) -> None:
    found = sought(server, name, tmp_path, planted_holders.__name__)
    assert found.verdict == "grows", found.sentence
    assert grade(name, found) == "right", found.holders
    assert not any(each.is_held for each in found.main_holders)
