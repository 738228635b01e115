"""The played allocator against TensorFlow's own figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.cell import TrialSpec
from runner.config import Experiment
from runner.fit.bfc import BfcAllocator, Requests
from runner.processes.server import TrialServer
from scenarios.batches import DenseBatch
from scenarios.loops import PythonLoop
from tests.conftest import ANYWHERE, BRIEF, UNTRACKED

MEBIBYTE = 1 << 20


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
