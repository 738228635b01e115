"""The meter of a timing trial, with a clock of our own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.meters.host import floor, malloc
from runner.meters.host.resident import HostMemory
from runner.meters.host.timing import TimingMeter
from runner.records import Phase


@pytest.fixture(autouse=True)
def _no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "lower", lambda resident: floor.FloorChange(0, 0))


def measure_spans(readings: Iterator[float]) -> TimingMeter:
    """A meter that has seen a build and two steps."""
    meter = TimingMeter(HostMemory(), malloc.MallocLog(), 2, clock=lambda: next(readings))
    for phase, step in (
        (Phase.BUILD, 0),
        (Phase.STEPS, 0),
        (Phase.STEPS, 1),
        (Phase.COLLECTION, 0),
    ):
        meter.begin(phase, step)
        meter.end(phase, step)
    return meter


def test_a_span_is_the_time_between_its_two_readings() -> None:
    meter = measure_spans(iter([1.0, 3.5, 4.0, 4.25, 5.0, 5.5, 6.0]))
    assert meter.seconds == [0.25, 0.5]
    assert [meter.phases[phase].seconds for phase in (Phase.BUILD, Phase.STEPS)] == [2.5, 0.75]
    assert meter.unavailable == {}


@pytest.mark.parametrize("second_step", [(5.0, 5.0), (5.0, 4.0)])
def test_a_span_that_is_not_positive_is_null_with_its_reason(
    second_step: tuple[float, float],
) -> None:
    meter = measure_spans(iter([1.0, 1.0, 4.0, 4.25, *second_step, 6.0]))
    assert meter.seconds == []
    assert [meter.phases[phase].seconds for phase in (Phase.BUILD, Phase.STEPS)] == [None, None]
    assert meter.unavailable == {
        "build_seconds": "the clock did not go forward in build",
        "step_seconds": "the clock did not go forward in steps",
        "examples_per_second": "the clock did not go forward in steps",
    }


def test_a_phase_that_is_taken_up_again_has_the_time_of_all_its_parts() -> None:
    readings = iter([1.0, 2.0, 5.0, 5.5])
    meter = TimingMeter(HostMemory(), malloc.MallocLog(), 2, clock=lambda: next(readings))
    for _ in range(2):
        meter.begin(Phase.BUILD, 0)
        meter.end(Phase.BUILD, 0)
    assert meter.phases[Phase.BUILD].seconds == 1.5


def test_a_part_without_time_leaves_the_whole_phase_without() -> None:
    readings = iter([1.0, 1.0, 5.0, 5.5])
    meter = TimingMeter(HostMemory(), malloc.MallocLog(), 2, clock=lambda: next(readings))
    for _ in range(2):
        meter.begin(Phase.BUILD, 0)
        meter.end(Phase.BUILD, 0)
    assert meter.phases[Phase.BUILD].seconds is None
