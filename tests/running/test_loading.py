"""TensorFlow begins to load as a command is read, and ends with it whatever comes of its words."""

from __future__ import annotations

import importlib

import pytest

from runner.errors import BadInput
from runner.isolation import server
from runner.running import loading
from runner.verbs import claims

BAD = "measure.steps=-1"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What becomes of the servers."""
    events: list[str] = []
    monkeypatch.setattr(server.Server, "start", lambda _: events.append("loads"))
    monkeypatch.setattr(server, "end_all", lambda: events.append("ended"))
    return events


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("run", ["scenario=while_loop", BAD]),
        ("run", ["-m", "scenario=while_loop", BAD]),
        ("fit", ["vary=batch_size", "scenario=while_loop", "device.memory_limit_mb=64", BAD]),
        ("leak", ["scenario=while_loop", "--json", "--no-remedies", BAD]),
        ("claims", ["004-06", BAD]),
    ],
)
def test_what_measures_loads_tensorflow_ahead_and_a_mistake_ends_it(
    verb: str, words: list[str], seen: list[str]
) -> None:
    with pytest.raises(BadInput, match=r"measure\.steps"):
        importlib.import_module(f"runner.verbs.{verb}").main(words)
    assert seen == ["loads", "ended"]


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "scenario=while_loop", "hydra/launcher=joblib"],
        ["scenario=while_loop", "--cfg", "job"],
        ["batch_size=3"],
    ],
)
def test_what_measures_elsewhere_or_not_at_all_loads_nothing(words: list[str]) -> None:
    assert not loading.wanted_by(words)


def test_of_claims_that_are_gone_on_with_nothing_may_be_missing(seen: list[str]) -> None:
    with pytest.raises(BadInput, match="resume=nowhere"):
        claims.main(["resume=nowhere"])
    assert seen == ["ended"]
