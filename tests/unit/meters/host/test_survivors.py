"""What stays from one mark to the next, and what it takes."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from runner.errors import RunnerError
from runner.meters.host import survivors
from runner.meters.host.survivors import SurvivorMeter


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("switched_on", [True, False])
def test_garbage_stays_where_the_collector_is_switched_off(switched_on: bool) -> None:
    tracer = SurvivorMeter()
    gc.disable()
    garbage = weakref.ref(Cycle())
    try:
        if switched_on:
            gc.enable()
        tracer.mark()
        assert (garbage() is None) == switched_on
    finally:
        gc.enable()


def record(*intervals: tuple[int, int | None, int, int], allocator: int = 1) -> Any:
    """Blocks from one snapshot to before another: how many, and of how many bytes together."""
    return SimpleNamespace(
        allocator=allocator,
        intervals=[
            SimpleNamespace(
                allocated_before_snapshot=begin,
                deallocated_before_snapshot=end,
                n_allocations=count,
                n_bytes=size,
            )
            for begin, end, count, size in intervals
        ],
    )


def test_what_is_live_at_a_mark_is_counted_above_the_first() -> None:
    marks = [10, 20, 30]
    gone = (5, 15, 1, 24)  # there at the first mark, and no more at the second
    kept = (12, None, 2, 48)
    passing = (21, 29, 9, 999)
    live = survivors._count_live(record(gone, kept, passing), marks)
    assert live.tolist() == [[0, 64 - 32, 64 - 32], [0, 1, 1]]


def test_a_mark_without_a_snapshot_in_its_quiet_is_no_figure() -> None:
    marks = [(10.5, 14.0), (20.5, 24.0)]
    assert survivors.find_snapshots([9, 12, 13, 21], marks) == [1, 3]
    for times in ([9, 12, 13, 25], [9, 12, 13], [15, 21]):
        with pytest.raises(RunnerError, match="so busy that memray's thread took no snapshot"):
            survivors.find_snapshots(times, marks)


@pytest.mark.parametrize(
    ("total", "count", "allocator", "taken"),
    [
        (24, 1, 1, 32),  # glibc's: 8 bytes of header, multiples of 16, 32 at least
        (25, 1, 1, 48),
        (100, 1, 2, 112 * 16384 / 16336),  # Python's: multiples of 16 in pools with a header
        (1000, 1, 2, 1008),  # too large for those, so glibc's
        (5000, 1, 14, 5000),  # mapped
    ],
)
def test_blocks_take_their_header_and_their_rounding(
    total: int, count: int, allocator: int, taken: float
) -> None:
    assert survivors._count_taken(total, count, allocator) == pytest.approx(taken)
