"""TensorFlow begins to load as a command is read, and ends with it whatever comes of its words."""

from __future__ import annotations

import pytest

from runner.commands import call
from runner.engine.preload import is_likely_to_measure
from runner.errors import BadInput
from runner.processes import server

BAD = "measure.steps=-1"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What becomes of the servers."""
    events: list[str] = []
    monkeypatch.setattr(server.TrialServer, "start", lambda *_: events.append("loads"))
    monkeypatch.setattr(server.TrialServer, "stop", lambda _: events.append("ended"))
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
        call(verb, words)
    assert seen == ["loads", "ended"]


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "scenario=while_loop", "hydra/launcher=dask"],
        ["scenario=while_loop", "--cfg", "job"],
        ["batch_size=3"],
    ],
)
def test_what_measures_elsewhere_or_not_at_all_loads_nothing(words: list[str]) -> None:
    assert not is_likely_to_measure(words)


def test_resumed_claims_load_nothing_before_they_are_read(seen: list[str]) -> None:
    with pytest.raises(BadInput, match="resume=nowhere"):
        call("claims", ["resume=nowhere"])
    assert seen == ["ended"]
