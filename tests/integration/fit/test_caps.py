"""Caps that hold: the device's on tensors, the host's on the process; and a device that is not
there."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import records
from tests.conftest import Cli, MeasureWords

CAP = 64 * 2**20
MATRICES = ("scenario=python_loop", "scenario.size=1000", "batch_size=1000")
STATE = 1000 * 1000 * 4


def test_a_taped_loop_runs_out_at_the_iteration_that_arithmetic_predicts(
    measure: MeasureWords,
) -> None:
    """Under the cap there is room for the weight, the initial state and as many more as
    iterations; give or take two, because the allocator's regions grow in steps."""
    record = measure(
        *MATRICES, "scenario.gradient=tape", "device=cpu", "device.memory_limit_mb=64", fails=True
    )
    assert (record.outcome.status, record.outcome.phase) == ("out_of_memory", "first_call")
    assert record.allocations is not None
    kept = {group.op: group.count for group in record.allocations.groups}
    predicted = CAP // STATE - 2
    assert abs(kept["MatMul"] - predicted) <= 2
    asked = record.trials[0].facts.out_of_memory
    assert asked is not None
    assert (asked.op, asked.bytes, asked.device) == ("MatMul", STATE, "CPU:0")
    assert asked.live_bytes == record.allocations.total_bytes <= CAP


def test_the_untaped_loop_completes_under_the_same_cap_and_says_which_allocator_was_timed(
    measure: MeasureWords,
) -> None:
    words = (
        *(*MATRICES, "scenario.iterations=30", "device=cpu", "measure.timing_processes=1"),
        *(
            "measure.steps=1",
            "measure.min_steps=1",
            "measure.memory_steps=1",
            "measure.warmup_steps=0",
        ),
    )
    capped = measure(*words, "device.memory_limit_mb=64", timing=True)
    free = measure(*words, timing=True)
    assert capped.metrics["tensor_peak_bytes"] == free.metrics["tensor_peak_bytes"]
    assert capped.metrics["tensor_peak_bytes"] == 4 * STATE, "weight, initial state and two more"
    assert capped.environment.comparable["allocator"] == "capped"
    assert free.environment.comparable["allocator"] == "default"
    assert capped.fingerprint != free.fingerprint


@pytest.mark.parametrize("kind", ["timing", "memory"])
def test_code_that_eats_the_host_s_memory_ends_as_a_record(
    measure: MeasureWords, kind: str
) -> None:
    record = measure(
        *("scenario=callable", "scenario.target=tests.runaway:eat", "measure.host_limit_mb=300"),
        timing=kind == "timing",
        memory=kind == "memory",
        fails=True,
    )
    assert (record.outcome.status, record.outcome.phase) == ("out_of_memory", "build")
    said = (record.outcome.reason or "").splitlines()[0]
    traced = "2,800 MiB (2.94 GB) of which 2,500 MiB (2.62 GB) are the tracer's"
    under = "300 MiB (315 MB)" if kind == "timing" else traced
    assert said == f"the code asked for 16.0 MB ([2000000] float64), under a cap of {under}"
    assert "runaway.py:" in (record.outcome.reason or "")
    assert record.metrics["host_peak_bytes"] is None


def test_a_gpu_that_is_not_there_is_bad_input_in_a_run_that_says_what_there_is_and_what_to_do(
    cli: Cli, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    done = cli("scenario=while_loop", "device=gpu", "tracking=none")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "runner: device=gpu: TensorFlow sees no GPU:0 here; it sees CPU:0.",
        "  Install the driver and the extra [gpu] (see README.md), or say device=auto.",
    ]
    assert not outputs.exists()


def test_in_a_sweep_it_is_an_unsupported_row_and_the_rest_runs(
    cli: Cli, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    done = cli("-m", "scenario=python_loop", "device=gpu,cpu", "tracking=none",
               "measure.timing_processes=0")  # fmt: skip
    assert done.returncode == 1
    assert "unsupported: device=gpu: TensorFlow sees no GPU:0 here" in done.stdout
    (folder,) = (outputs / "sweeps").glob("*/*")
    found = [records.read(cell) for cell in records.find(folder)]
    assert [record.outcome.status for record in found] == ["unsupported", "completed"]
    assert "it sees CPU:0" in (found[0].outcome.reason or "")
