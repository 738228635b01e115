"""Rare events are counted while steps are traced: a host trial goes on until it has seen three."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from runner.meters.host import rare_events
from runner.meters.host.rare_events import RareEvents


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], int], int], bool]:
    """Return what tells if so many steps, after each of which so much is in use, may recur."""

    def run(in_use: Callable[[int], int], steps: int = 100) -> bool:
        events = RareEvents()
        monkeypatch.setattr(rare_events.sys, "getallocatedblocks", lambda: 0)
        for step in range(steps):
            now = SimpleNamespace(in_use_bytes=in_use(step))
            monkeypatch.setattr(rare_events.malloc, "info", lambda now=now: now)
            events.note()
        return events.may_recur()

    return run


@pytest.mark.parametrize(("every", "goes_on"), [(20, False), (45, True), (80, True), (200, False)])
@pytest.mark.parametrize("each_step", [0, 500])
def test_it_goes_on_after_one_and_two_and_not_after_none_or_three(
    watch: Callable[..., bool], every: int, goes_on: bool, each_step: int
) -> None:
    assert watch(lambda step: 64_000 * (step // every) + each_step * step) is goes_on


def test_what_goes_again_is_no_event(watch: Callable[..., bool]) -> None:
    assert not watch(lambda step: 64_000 * (step % 45 == 7))


def test_what_the_first_steps_leave_is_no_event(watch: Callable[..., bool]) -> None:
    assert not watch(lambda step: 64_000 * (step >= 1))


def test_where_malloc_has_no_books_python_counts_its_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rare_events.malloc, "info", None)
    events = RareEvents()
    for step in range(60):
        monkeypatch.setattr(
            rare_events.sys, "getallocatedblocks", lambda at=step: 9_000 * (at > 30)
        )
        events.note()
    assert events.may_recur()
