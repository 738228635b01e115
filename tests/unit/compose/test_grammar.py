"""What people know of Hydra: it works as there, or is refused in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from runner.compose import composition
from runner.config import Experiment
from runner.errors import BadInput


def cells(*words: str) -> list[Experiment]:
    return [cell.experiment for cell in composition.compose_plan(words).cells]


def test_values_come_from_the_environment_and_are_what_their_field_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUR_BATCH", "77")
    monkeypatch.setenv("OUR_SWITCH", "true")
    (found,) = cells(
        "scenario=while_loop",
        "batch_size=${oc.env:OUR_BATCH}",
        "scenario.swap_memory=${oc.env:OUR_SWITCH}",
        "measure.max_seconds=${oc.env:OUR_LIMIT,2.5}",
    )
    assert (found.batch_size, found.parameters["swap_memory"]) == (77, True)
    assert found.measure.max_seconds == 2.5


def test_a_field_may_be_another_one() -> None:
    (found,) = cells("scenario=large_tensor", "scenario.size=${batch_size}")
    assert found.parameters["size"] == found.batch_size


SWEEPS: dict[tuple[str, ...], list[Any]] = {
    ("scenario=large_tensor", "scenario.size=range(10,40,10)"): [10, 20, 30],
    ("scenario=large_tensor", "scenario.size=sort(choice(3,1,2))"): [1, 2, 3],
    ("scenario=glob([w*,py*_loop])",): [100, 100],
}


@pytest.mark.parametrize("words", SWEEPS)
def test_ranges_choices_and_patterns_are_swept(words: tuple[str, ...]) -> None:
    found = cells("-m", *words)
    assert [each.parameters["size"] for each in found] == SWEEPS[words]


def test_what_an_experiment_sweeps_can_be_said_otherwise_or_left_out() -> None:
    found = cells("experiment=loops", "scenario.iterations=3,4")
    assert [each.parameters["iterations"] for each in found[:2]] == [3, 4]
    words = ("experiment=loops", "~hydra.sweeper.params.scenario")
    assert {each.scenario_name for each in cells(*words)} == {"python_loop"}


REFUSED = {
    (
        "scenario=tape",
        "batch_size=${oc.env:NOT_THERE}",
    ): "has no variable NOT_THERE",
    ("scenario=tape", "batch_size='many'"): "'many' is not a whole number",
    ("-m", "scenario=large_tensor", "scenario.size=interval(1,5)"): r"Write range\(START",
    ("-m", "experiment=loops,mallocs"): "loops is a sweep of its own",
    ("-m", "experiment=glob(loop*)"): "is a sweep of its own",
    ("-m", "scenario=glob(*pool)"): r"a glob\(\) may match nothing",
    ("scenario=glob(*_loop)",): r"python -m runner -m scenario=glob\(\*_loop\)",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_would_mean_something_else_is_refused_with_what_to_say(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(BadInput, match=REFUSED[words]):
        cells(*words)
