"""What real runs leave is drawn to the byte."""

from __future__ import annotations

import math

import pytest

from runner.render.html import lives_layout
from tests.conftest import MeasureWords


@pytest.mark.parametrize(
    "words",
    [
        ["scenario=python_loop", "scenario.gradient=tape", "scenario.iterations=30"],
        ["scenario=python_loop", "scenario.gradient=tape", "scenario.iterations=30",
         "execution=graph"],
        ["scenario=while_loop", "scenario.gradient=tape", "scenario.iterations=30"],
        ["scenario=chained_ops", "execution=xla"],
        ["scenario=tensor_per_step", "scenario.release=keep"],
        ["scenario=optimizer_slots", "scenario.optimizer=adam"],
        ["scenario=keras_training"],
        ["scenario=keras_training", "execution=graph"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_of_a_real_run_the_upper_edge_is_the_recorded_curve_to_the_byte(
    measure: MeasureWords, words: list[str]
) -> None:
    found = measure(*words, "batch_size=16").allocations
    assert found is not None
    assert found.lives is not None
    stack = lives_layout.stack_bands(found.lives)
    levels = stack.sum_levels()
    assert max(levels) == levels[stack.peak] == found.total_bytes
    curve = dict(found.peak_curve.points)  # of one instant, the last
    assert len(curve) > 2
    edge = dict(zip(stack.events, levels, strict=True))
    for time, size in curve.items():
        assert edge[max(event for event in stack.events if event <= time)] == size
    assert math.isclose(stack.events[0], found.peak_curve.seconds[0])
