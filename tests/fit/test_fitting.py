"""A whole fit: its searches go on side by side, and what ends one of them by force ends all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from runner.errors import ServerError
from runner.fit import fitting
from runner.fit.probes import Limit


def test_a_lost_server_ends_every_search_at_once_and_the_result_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, was_told = Event(), []

    def search(limit: Limit, *_: object) -> None:
        if limit.strategy.number == 0:
            was_told.append(cut.wait(60))
        raise ServerError("the server ended.", "Its last words are in the log.")

    @contextmanager
    def opened(_: Path) -> Iterator[object]:
        yield SimpleNamespace(server=SimpleNamespace(cut=cut.set), machine={})

    monkeypatch.setenv("RUNNER_OUTPUTS", str(tmp_path))
    monkeypatch.setattr(fitting.probes, "search", search)
    monkeypatch.setattr(fitting.session, "opened", opened)
    words = ("scenario=python_loop", "scenario.gradient=none,tape", "device.memory_limit_mb=64")
    onlooker = SimpleNamespace(trial=lambda *_: None, close=lambda: None)
    found = fitting.fitted(
        fitting.Asked("batch_size", 9, (*words, "measure.side_by_side=2")), onlooker
    )
    assert was_told == [True]
    assert isinstance(found.stopped, ServerError)
    assert found.exit_code == 1
    told = json.loads((found.folder / fitting.RESULT_FILE).read_text())
    assert {each["reason"] for each in told["strategies"]} == {
        "the server ended; nothing had completed before"
    }
