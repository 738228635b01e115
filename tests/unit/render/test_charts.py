"""Scales, ticks and what a chart says: where a value is drawn, and which words stand beside it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.metrics import format_bytes, format_seconds
from runner.render.html.charts import AxisSpan
from runner.render.html.peak_sections import find_phase_joints
from runner.render.html.scales import (
    LinearScale,
    LogScale,
    PiecewiseScale,
    choose_scale,
    make_scale_from_zero,
    shorten,
)


def list_words(ticks: list[tuple[float, str]]) -> list[str]:
    return [text for _, text in ticks]


def test_ticks_are_round_and_say_their_unit_once() -> None:
    assert list_words(LinearScale(0, 23e6, format_bytes).list_ticks()) == [
        "0",
        "5 MB",
        "10 MB",
        "15 MB",
        "20 MB",
    ]
    assert list_words(LinearScale(0, 0.0123, format_seconds).list_ticks()) == ["0", "5 ms", "10 ms"]


@pytest.mark.parametrize(
    ("highest", "expected"), [(0, ["0"]), (1, ["0", "1 B"]), (3, ["0", "1 B", "2 B", "3 B"])]
)
def test_no_two_ticks_say_the_same(highest: float, expected: list[str]) -> None:
    ticks = make_scale_from_zero([0, highest], format_bytes).list_ticks()
    assert [text for _, text in ticks] == expected
    assert ticks[0][0] == 0


def test_a_logarithmic_scale_has_at_most_seven_ticks() -> None:
    assert list_words(LogScale(90e3, 1.2e6, format_bytes).list_ticks()) == [
        "100 kB",
        "200 kB",
        "500 kB",
        "1 MB",
    ]
    assert list_words(LogScale(1e-6, 10, format_seconds).list_ticks()) == [
        "1 us",
        "100 us",
        "10 ms",
        "1 s",
    ]
    assert len(LogScale(1, 1e12, format_bytes).list_ticks()) <= 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2.00 MB", "2 MB"), ("0 B", "0"), ("0.00 ns", "0"), ("10.5 ms", "10.5 ms"),
     ("100 us", "100 us"), ("1,000 s", "1,000 s")],
)  # fmt: skip
def test_a_tick_is_as_short_as_its_number(text: str, expected: str) -> None:
    assert shorten(text) == expected


def test_values_over_a_decade_are_drawn_on_a_logarithmic_scale_and_others_from_zero() -> None:
    assert isinstance(choose_scale([1e3, 1e6], format_bytes), LogScale)
    assert isinstance(choose_scale([1e3, 2e3], format_bytes), LinearScale)
    assert isinstance(choose_scale([0, 1e6], format_bytes), LinearScale)
    assert make_scale_from_zero([], format_bytes).place(0.0) == 0.0


@given(st.lists(st.floats(1e-9, 1e15), min_size=1, max_size=20))
def test_every_value_has_its_place_in_the_order_of_the_values(values: list[float]) -> None:
    scale = choose_scale(values, format_bytes)
    places = [scale.place(value) for value in sorted(values)]
    assert all(0 <= place <= 1 for place in places)
    assert all(one <= other for one, other in pairwise(places))


PHASES = [
    AxisSpan("build", 0.0, 0.1),
    AxisSpan("first call", 0.1, 10.0),
    AxisSpan("steps", 10.0, 10.001),
]


def test_a_short_phase_keeps_its_room_and_time_runs_forward_all_along() -> None:
    scale = PiecewiseScale(find_phase_joints(PHASES, [(0.0, 1.0), (10.0, 1.0)]), format_seconds)
    places = [scale.place(second) for second in (0, 0.05, 0.1, 5, 10, 10.0005, 10.001)]
    assert places[0] == 0
    assert places[-1] == pytest.approx(1)
    assert all(one < other for one, other in pairwise(places))
    assert scale.place(10.001) - scale.place(10.0) > 0.1
    assert list_words(scale.list_ticks())[0] == "0"


def test_without_phases_the_scale_is_that_of_the_points() -> None:
    scale = PiecewiseScale(find_phase_joints([], [(2.0, 1.0), (4.0, 1.0)]), format_seconds)
    assert [scale.place(second) for second in (2, 3, 4)] == [0, 0.5, 1]


def test_a_trial_of_one_moment_can_be_drawn() -> None:
    scale = PiecewiseScale(find_phase_joints([], [(2.0, 1.0)]), format_seconds)
    assert 0 <= scale.place(2.0) <= 1
    assert LinearScale(3, 3, format_bytes).place(3) == 0.5
    assert LinearScale(3, 3, format_bytes).list_ticks() == [(0.5, "3 B")]
