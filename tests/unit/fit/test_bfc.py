"""The played allocator, by hand where its rules are."""

from __future__ import annotations

import pytest

from runner.fit import bfc
from runner.fit.bfc import BfcAllocator, OutOfMemory, Requests

MEBIBYTE = 1 << 20


def test_a_size_is_rounded_up_to_256_bytes_and_a_chunk_twice_as_large_is_split() -> None:
    allocator = BfcAllocator(64 * MEBIBYTE)
    first, second = allocator.allocate(1), allocator.allocate(257)
    assert (allocator.get_size(first), allocator.get_size(second)) == (256, 512)
    assert second == first + 256


def test_what_is_freed_joins_its_neighbours_and_is_used_again() -> None:
    allocator = BfcAllocator(2 * MEBIBYTE)
    first, second = allocator.allocate(MEBIBYTE), allocator.allocate(MEBIBYTE)
    allocator.free(first)
    allocator.free(second)
    assert allocator.allocate(2 * MEBIBYTE) == first
    assert allocator.region_bytes == 2 * MEBIBYTE


def test_a_cap_of_64_mib_holds_15_tensors_of_4_mb_where_regions_double() -> None:
    """And the scalar that they are filled from, as was seen of TensorFlow's. One that has it all in
    one piece holds a sixteenth."""
    for grows, most in ((True, 15), (False, 16)):
        allocator = BfcAllocator(64 * MEBIBYTE, grows=grows)
        allocator.allocate(4)
        for _ in range(most):
            allocator.allocate(4_000_000)
        with pytest.raises(OutOfMemory):
            allocator.allocate(4_000_000)


def test_the_smallest_cap_under_which_requests_fit_is_found() -> None:
    kept = Requests((4_000_000,) * 15, ("Fill",) * 15, tuple(range(15)))
    needs = bfc.find_needed_bytes(kept)
    assert 60_000_000 < needs <= 64 * MEBIBYTE
    assert bfc.can_fit(kept, kept.bytes, needs)
    assert not bfc.can_fit(kept, kept.bytes, needs - MEBIBYTE)
