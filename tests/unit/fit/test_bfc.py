"""The played allocator: by hand where its rules are, and against TensorFlow's own figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.cell import TrialSpec
from runner.config import Experiment
from runner.fit import bfc
from runner.fit.bfc import BfcAllocator, OutOfMemory, Requests
from runner.processes.server import TrialServer
from scenarios.batches import DenseBatch
from scenarios.loops import PythonLoop
from tests.conftest import ANYWHERE, BRIEF, UNTRACKED

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


@pytest.mark.parametrize(
    ("scenario", "execution"),
    [
        (PythonLoop(30, 100, "tape", stop_gradient=False, watch=True), "eager"),
        (DenseBatch(784, "outside", keep_activations=True, gradient="tape", depth=2), "eager"),
    ],
)
def test_played_with_the_requests_of_a_real_trial_its_chunks_are_tensorflow_s_to_the_byte(
    scenario: PythonLoop | DenseBatch, execution: str, server: TrialServer
) -> None:
    capped = replace(ANYWHERE, memory_limit_mb=64)
    experiment = Experiment("test", scenario, execution, capped, BRIEF, UNTRACKED, 400, 0)
    trial = server.run(TrialSpec(experiment, "memory", 0, with_requests=True), 60.0)
    assert trial.outcome.completed, trial.outcome
    assert trial.facts.requests is not None
    asked = Requests.of(trial.facts.requests, grows=True)
    assert peak_of_chunks(asked) == trial.facts.allocator_peak_bytes


def peak_of_chunks(asked: Requests) -> int:
    allocator = BfcAllocator(64 * MEBIBYTE)
    at: dict[int, int] = {}
    used = peak = 0
    for number in asked.order:
        if number in at:
            used -= allocator.get_size(at[number])
            allocator.free(at.pop(number))
        else:
            at[number] = allocator.allocate(asked.bytes[number])
            used += allocator.get_size(at[number])
            peak = max(peak, used)
    return peak
