"""Which container grew, by which names a person reaches it, and what threads take."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HOLDING = Path(__file__).with_name("holding.py")


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.integration.meters.holding"]
    root = Path(__file__).parents[3]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=root)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))


def chains(found: list[dict[str, Any]]) -> list[str]:
    return [" > ".join(each["chain"][:-1]) for each in found]


def test_containers_are_found_by_the_names_that_a_person_knows(told: dict[str, Any]) -> None:
    found = chains(told["both"])
    step = "the step > "
    assert any(each.startswith("`Kept.seen`, a list of the class") for each in found)
    assert any(each.endswith("closes over > .sizes, a dict of Kept") for each in found)
    assert any(each.startswith(f"{step}`sizes`, a Sizes that step (") for each in found)
    cached = next(each for each in found if "the cache of cached (" in each)
    assert "maxsize=1000000" in cached


def test_a_chain_of_objects_is_reached_from_the_end_that_has_a_name(told: dict[str, Any]) -> None:
    (chain,) = chains(told["chain"])
    assert chain.startswith("the step > `state`, a dict that link (")
    assert chain.endswith(" > ['head']")
    assert told["chain"][0]["frees"], "cut at its head, all of it goes"


def test_what_gives_the_memory_back_is_told_from_what_does_not(told: dict[str, Any]) -> None:
    gave = {each["chain"][-2] for each in told["both"] if each["frees"]}
    assert len(gave) == 2
    assert any(each.startswith("`Kept.seen`") for each in gave)
    assert any(each.startswith("the cache of cached (") for each in gave)


def test_what_an_extension_takes_past_python_goes_with_its_object(told: dict[str, Any]) -> None:
    (held,) = [each for each in told["opened"] if each["frees"]]
    assert "`opened`" in chains([held])[0]
    assert held["frees_native"] > 10_000


def test_two_containers_that_each_are_enough_hold_together(told: dict[str, Any]) -> None:
    (held,) = [each for each in told["two"] if each["frees"]]
    names = re.findall(r"`(\w+)`", f"{held['chain']} {held['also']}")
    assert sorted(names) == ["first", "second"]


def test_what_can_not_be_tried_in_a_fork_only_reaches(told: dict[str, Any]) -> None:
    (reaches,) = told["waits"]
    assert reaches["chain"][1].startswith("`kept`, a list that step (")
    assert reaches["lines"]
    assert not reaches["frees"]


def test_threads_hold_their_stacks_and_are_made_at_a_line(told: dict[str, Any]) -> None:
    (running,) = [each for each in told["both"] if each["of"] == "Thread"]
    file, line = running["made_at"]
    assert Path(file).resolve() == HOLDING
    assert "threading.Thread(" in HOLDING.read_text().splitlines()[line - 1]
    (stacks,) = told["threads"]
    assert stacks["count"] == [0, 1]
    assert 4096 <= stacks["bytes"][1] <= 200_000
    assert told["no threads"] == []
