"""What is kept of a trial of very many steps: as much as of a few hundred."""

from __future__ import annotations

import gc
import mmap
from itertools import count, pairwise
from typing import Any

import pytest

from runner.meters.host import floor, malloc
from runner.meters.host.clean import CleanLog
from runner.meters.host.resident import HostMemory
from runner.meters.host.timing import LeastSeries, TimingMeter
from runner.records import Phase


@pytest.mark.parametrize(("steps", "stride"), [(1, 1), (8, 1), (9, 2), (16, 2), (100, 16)])
def test_a_series_keeps_the_least_of_every_few_steps(steps: int, stride: int) -> None:
    kept = LeastSeries(length=8)
    values = [(step * 37) % 101 for step in range(steps)]
    for value in values:
        kept.add(value)
    assert kept.stride == stride
    whole = range(0, steps - stride + 1, stride)
    assert kept.values == [min(values[at : at + stride]) for at in whole]


def test_malloc_s_books_are_read_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = count()

    def read() -> Any:
        return malloc.MallocInfo(uordblks=next(reads))

    monkeypatch.setattr(malloc, "info", read)
    books = malloc.MallocLog()
    for step in range(50_000):
        books.note(step)
    told = books.to_facts()
    assert told is not None
    assert told.steps[:34] == (*range(32), 512, 1024)
    apart = {later - one for one, later in zip(told.steps[32:], told.steps[33:], strict=False)}
    assert len(told.steps) <= 32 + 128
    assert max(apart) <= 512
    assert told.steps[-1] > 49_000
    assert list(told.in_use_bytes) == sorted(told.in_use_bytes)
    assert next(reads) < 2_000


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> TimingMeter:
    monkeypatch.setattr(floor, "lower", lambda resident: floor.FloorChange(0, 0))
    gc.collect()  # the garbage of former tests, which a clean reading would free
    malloc.trim()
    readings = count()
    return TimingMeter(HostMemory(), malloc.MallocLog(), 3, clock=lambda: float(next(readings)))


def take(meter: TimingMeter, *steps: int) -> None:
    for step in steps:
        meter.begin(Phase.STEPS, step)
        meter.end(Phase.STEPS, step)


def test_steps_beyond_those_that_are_wanted_are_part_of_growth_alone(meter: TimingMeter) -> None:
    take(meter, 0, 1, 2)
    assert meter.needs_more(3, 0.0)
    before = meter.phases[Phase.STEPS]
    with mmap.mmap(-1, 10_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        held.write(b"x" * 10_000_000)
        take(meter, *range(3, 50))
    meter.begin(Phase.COLLECTION, 0)
    assert meter.phases[Phase.STEPS] == before
    assert before.seconds == 3
    assert len(meter.steps.seconds) == 3
    assert meter.steps.host_steps == 50
    assert max(meter.steps.host_bytes) > 9_000_000


def test_what_a_program_does_between_two_steps_is_part_of_their_whole_time(
    meter: TimingMeter,
) -> None:
    take(meter, 0, 1)
    for _ in range(100):
        meter._clock()  # a second each, between two steps
    take(meter, 2)
    assert meter.steps.seconds == (1, 1, 1)
    assert meter.steps.whole_seconds == meter.steps.host_seconds == 3 + 2 + 100


def test_no_more_steps_are_taken_once_they_hold_much_of_the_free_memory(
    meter: TimingMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.meters.host.timing.read_room_bytes", lambda: 64_000_000)
    take(meter, 0, 1, 2)
    assert meter.needs_more(3, 0.0)
    with mmap.mmap(-1, 8_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        held.write(b"x" * 8_000_000)
        assert not meter.needs_more(4, 0.0)


def test_clean_readings_are_taken_ever_less_often_and_evenly_apart() -> None:
    log = CleanLog(trim=lambda: 5, collect=lambda: 3)
    for step in range(200, 20_000):
        log.note(step)
    told = log.to_facts()
    assert told.steps[0] == 200
    assert len({later - one for one, later in pairwise(told.steps)}) == 1
    assert 8 <= sum(step >= 10_000 for step in told.steps) <= 16
    assert set(told.bytes) == {3}
    assert set(told.collected_bytes) == {2}


class _Cycle:
    """Refers to itself, so only Python's collector frees it."""

    def __init__(self, size: int) -> None:
        self.itself, self.state = self, b"x" * size


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_garbage_is_collected_before_none_of_the_steps_that_were_asked_for(
    meter: TimingMeter, is_asked_for: bool
) -> None:
    gc.disable()
    try:
        take(meter, 0, 1, 2)
        if not is_asked_for:
            assert meter.needs_more(3, 0.0)
        for _ in range(20):
            _Cycle(200_000)
        take(meter, 3)
    finally:
        gc.enable()
    told = meter.clean.to_facts()
    assert bool(told.steps) is not is_asked_for
    if not is_asked_for:
        assert told.collected_bytes[0] == 0  # who has switched the collector off keeps its garbage


def test_a_clean_reading_has_what_was_kept_and_not_what_was_garbage(meter: TimingMeter) -> None:
    take(meter, 0, 1, 2)
    assert meter.needs_more(3, 0.0)
    take(meter, 3)
    kept = []
    for _ in range(20):
        kept.append(b"x" * 200_000)
        _Cycle(200_000)
    take(meter, 4)
    told = meter.clean.to_facts()
    assert told.bytes[1] - told.bytes[0] == pytest.approx(4_000_000, rel=0.1)
    assert told.collected_bytes[1] == pytest.approx(4_000_000, rel=0.1)
