"""A whole fit: its searches go on side by side, and what ends one of them by force ends all."""

from __future__ import annotations

import json
from pathlib import Path

from runner.cell import TrialSpec
from runner.compose import composition
from runner.engine.measure import measure
from runner.errors import ServerError
from runner.fit import fitting
from runner.fit.fitting import FitSearch
from runner.fit.strategies import list_strategies
from tests.unit.engine.conftest import Recorder, executor_on


def test_a_lost_server_ends_every_search_at_once_and_the_result_says_so(tmp_path: Path) -> None:
    def lose(_: TrialSpec) -> None:
        raise ServerError("the server ended.", "Its last words are in the log.")

    folder = tmp_path / "fit"
    words = ("scenario=python_loop", "scenario.gradient=none,tape", "device.memory_limit_mb=64")
    strategies = list_strategies(composition.compose_plan(["-m", *words]), "batch_size")
    search = FitSearch("batch_size", 9, words, strategies, folder)
    server = Recorder(lose)
    result = measure(search, folder, executor_on(server))
    assert len(server.asked) <= 2
    assert isinstance(result.stopped, ServerError)
    assert result.exit_code == 1
    search.stop(result.stopped)
    search.keep()
    kept = json.loads((folder / fitting.RESULT_FILE).read_text())
    assert {each["reason"] for each in kept["strategies"]} == {
        "the server ended; nothing had completed before"
    }
