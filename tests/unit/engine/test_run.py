"""A run takes no trial of other code of the user's than the trials before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.callables import pickle_function
from runner.compose import composition
from runner.engine.requests import Evidence, Request
from runner.engine.run import Run, open_run
from runner.errors import CodeChanged
from runner.facts import TrialFacts
from tests.factories import memory_trial
from tests.runs import MACHINE

HERE = Path(__file__).name


def step() -> None: ...


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of a function of this file, which was copied."""
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setattr(step, "__module__", "__main__")
    target, function = pickle_function(step)
    words = {"scenario": "callable", "scenario.target": target, "tracking": "none"}
    (cell,) = composition.compose_cells([words], function)
    return open_run(
        Request(cell, Evidence(memory=2, timing=0, host=0), place=""), tmp_path, MACHINE
    )


@pytest.mark.parametrize(("file", "is_kept"), [(HERE, True), ("module.py", False)])
def test_of_a_copied_function_only_its_own_file_may_change(
    run: Run, file: str, is_kept: bool
) -> None:
    first, second = (
        replace(memory_trial(index=number), facts=TrialFacts(code={file: f"{number}"}))
        for number in range(2)
    )
    run.add_trial(first)
    if is_kept:
        run.add_trial(second)
    else:
        with pytest.raises(CodeChanged, match=r"module\.py changed while it was measured"):
            run.add_trial(second)
    assert len(run.read_trials()) == 1 + is_kept
