"""The sequence of a trial's allocations, of events made by hand."""

from __future__ import annotations

import pytest

from runner.facts import RequestSequence
from runner.meters.tensor import requests
from runner.meters.tensor.requests import RequestCollector
from runner.records import Phase
from tests.unit.meters.tensor.test_replay import OTHER, OURS, Story


def test_the_sequence_has_each_allocation_where_it_is_made_and_where_it_is_freed() -> None:
    story = Story().begin(Phase.BUILD).make(1, 100, op="Fill").make(9, 7, allocator=OTHER)
    story.make(2, 30, op="Mul", within="EagerLocalExecute: Mul").free(1).end()
    collector = RequestCollector(OURS)

    collector.feed(story.window())
    collector.feed(story.begin(Phase.STEPS, 0).make(1, 50, op="Fill").free(2).end().window())

    assert collector.to_facts() == RequestSequence(
        bytes=(100, 30, 50),
        labels=(0, 1, 0),
        names=("Fill", "Mul|EagerLocalExecute: Mul"),
        order=(0, 1, 0, 2, 1),
    )


@pytest.mark.parametrize("last", [(Phase.STEPS, 1), (Phase.RELEASE, 0)])
def test_it_ends_with_the_second_step_or_an_earlier_release(last: tuple[Phase, int]) -> None:
    story = Story().begin(Phase.STEPS, 0).make(1, 10).end()
    story.begin(*last).make(2, 20).end().make(3, 30)
    collector = RequestCollector(OURS)

    collector.feed(story.window())
    collector.feed(story.make(4, 40).window())

    found = collector.to_facts()
    assert found is not None
    assert found.bytes == ((10, 20) if last[0] is Phase.STEPS else (10,))


def test_a_sequence_that_is_too_long_to_play_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_ALLOCATIONS", 2)
    collector, story = RequestCollector(OURS), Story().begin(Phase.BUILD)
    for address in (1, 2, 3):
        story.make(address, 10)
    collector.feed(story.end().window())

    assert collector.to_facts() is None
