"""Figures in words: an interval is given where it says something."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.metrics import format_metric, is_telling
from runner.render.files.note import write_note
from runner.render.html.run_page import draw_run_page
from runner.render.text.run_summary import summarize_run
from runner.render.words import describe_interval, describe_time
from tests.factories import completed, kept, measured, memory_trial, read_run, timing_trial


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [(1.0, 1.0, True), (1.0, 3.9, True), (1.0, 4.1, False), (0.0, 1.0, False), (-1.0, 1.0, False)],
)
def test_an_interval_says_something_up_to_four_times(low: float, high: float, says: bool) -> None:
    assert is_telling(low, high) is says


def test_a_time_that_is_known_has_its_interval() -> None:
    assert describe_time(completed(), "step_seconds") == "95 %: 1.28 ms to 1.37 ms"
    assert describe_time(completed(), "build_seconds") == ""


@pytest.mark.parametrize("spread", [1.5, 3, 30, 300])
def test_ends_that_say_nothing_are_printed_nowhere(tmp_path: Path, spread: float) -> None:
    """Of three processes that are far apart, what they took is printed instead."""
    times = (0.01, 0.01 * spread, 0.012)
    trials = [timing_trial([seconds] * 9, index=i) for i, seconds in enumerate(times)]
    record = measured(memory_trial(), *trials)
    low, high = record.intervals["step_seconds"]
    assert (high / low <= 4) is (spread == 1.5)
    views = (
        summarize_run(*read_run(kept(record, tmp_path / "run")), None, is_plain=True),
        draw_run_page(record, tmp_path),
        write_note(record, tmp_path),
    )
    interval = describe_interval(record, "step_seconds")
    if spread == 1.5:
        assert all(interval in view for view in views)
        return
    assert interval == ""
    seen = describe_time(record, "step_seconds")
    longest = format_metric("step_seconds", 0.01 * spread)
    assert seen == f"unsure: 10.0 ms to {longest} in 3 processes"
    assert all(seen in view for view in views[:2])
