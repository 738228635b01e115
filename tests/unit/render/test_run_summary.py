"""What a run's summary says beside a figure."""

from __future__ import annotations

import pytest

from runner.render.text.run_summary import describe_figure
from tests.factories import measured, timing_trial


@pytest.mark.parametrize(("steps", "seconds"), [(31, 0.5), (5000, 0.001)])
def test_a_host_growth_of_0_says_what_it_may_hide(steps: int, seconds: float) -> None:
    record = measured(timing_trial((seconds,) * steps))
    assert record.metrics["host_growth_bytes_per_step"] == 0
    may_hide = 32 * 1024 / (steps // 2)  # an eighth of the floor, over the second half
    words = describe_figure(record, "host_growth_bytes_per_step")
    assert words.startswith("more than ")
    assert words.endswith("/step would show")
    number, unit = words.removeprefix("more than ").split("/")[0].split()
    assert float(number) * {"B": 1, "kB": 1000}[unit] == pytest.approx(may_hide, rel=0.01)
