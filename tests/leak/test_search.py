"""The search for a leak ends when its user says so."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.composing import composition
from runner.errors import Interrupted
from runner.leak import search
from runner.leak.search import Search
from runner.running.engine import Result


def test_an_interrupted_run_ends_the_search_and_no_remedy_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def run_all(runs: list[object], folder: Path, *_: object) -> Result:
        measured.append(runs)
        return Result(folder, (), Interrupted(signal.SIGINT))

    idle = SimpleNamespace(start=lambda: None, stop=lambda: None)
    monkeypatch.setattr(search, "Server", lambda _: idle)
    monkeypatch.setattr(search.engine, "run_all", run_all)
    plan = composition.plan(["-m", "scenario=python_loop", "batch_size=1,2"], tmp_path / "plan")
    with pytest.raises(Interrupted):
        Search(plan, tmp_path, "leak").run()
    assert len(measured) == 1
