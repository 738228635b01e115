"""Rows of what leaks that a person can't tell apart are one."""

from __future__ import annotations

from dataclasses import replace

from runner.allocations import LeakedGroup
from runner.render import peak
from runner.render.text.peak_listing import list_peak
from tests.factories import ALLOCATIONS

SMALL = LeakedGroup("Square", "", (7,), "float32", 4, 112, 1.0, 28.0, (1,))
BY_ANOTHER_CALL = replace(SMALL, stack=(0, 1), count=8, bytes=224, count_per_step=2.0,
                          bytes_per_step=56.0)  # fmt: skip
OF_ANOTHER_SHAPE = replace(SMALL, shape=(9,), bytes=144, bytes_per_step=36.0)
FOUND = replace(ALLOCATIONS, leaks=(OF_ANOTHER_SHAPE, SMALL, BY_ANOTHER_CALL))


def test_equal_rows_are_one_with_their_sum() -> None:
    assert peak.group_leaks(FOUND) == [
        replace(SMALL, count=12, bytes=336, count_per_step=3.0, bytes_per_step=84.0),
        OF_ANOTHER_SHAPE,
    ]


def test_the_list_has_each_place_once() -> None:
    text = list_peak(FOUND, 10)
    assert "Each step leaves 120 B" in text
    assert text.count("Square 7 float32") == 1
    assert text.count("Square 9 float32") == 1
