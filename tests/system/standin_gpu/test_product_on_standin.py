"""The product on the stand-in GPU, as a user starts it: figures, cap, sweep, comparison, refusals.

What TensorFlow does there is known from `test_standin`; here it is what the record says of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import records

Cli = Callable[..., subprocess.CompletedProcess[str]]

BRIEF = ("tracking=none", "measure.timing_processes=2", "measure.steps=10",
         "measure.max_seconds=0.3")  # fmt: skip
LOOP = ("scenario=while_loop", "scenario.iterations=20")
WEIGHT, STATE, SCALAR = 100 * 100 * 4, 32 * 100 * 4, 4


@pytest.fixture
def gpu_cli(with_standin_gpu: dict[str, str], outputs: Path) -> Cli:
    """`python -m runner WORDS` where TensorFlow sees one card."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "runner", *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={**with_standin_gpu, "RUNNER_OUTPUTS": str(outputs)},
        )

    return run


def test_a_run_is_placed_on_the_card_and_its_figures_are_the_card_s(
    gpu_cli: Cli, outputs: Path
) -> None:
    """At the peak: the weight, the initial state and two more, and two scalars to fill from."""
    done = gpu_cli(*LOOP, "device=gpu", *BRIEF)
    assert done.returncode == 0, done.stderr
    assert "GPU:0" in done.stdout
    (folder,) = (outputs / "runs").glob("*/*")
    record = records.read(folder)
    assert record.metrics["tensor_peak_bytes"] == WEIGHT + 3 * STATE + 2 * SCALAR
    assert record.metrics["allocations_per_step"] == 20, "a MatMul an iteration"
    assert record.allocations is not None
    assert record.allocations.allocator == "(GPU|PluggableDevice)_0_bfc"
    ours = [name for name in record.allocations.allocators if name.startswith("PluggableDevice")]
    assert ours == ["PluggableDevice_0_bfc"]
    assert {trial.facts.device for trial in record.trials} == {"GPU:0"}
    assert record.environment.devices == ("CPU:0", "GPU:0")
    assert record.environment.card == "STANDIN"
    # The loop's condition has no kernel there: an int32 comparison, and the op that joins two.
    assert record.environment.fallback_ops == {"LogicalAnd": 1}
    for trial in record.trials:
        assert (trial.facts.fallback_ops is not None) == (trial.kind == "memory")


def test_a_cap_on_the_card_is_hard_and_says_who_asked_for_how_much_and_what_was_live(
    gpu_cli: Cli, outputs: Path
) -> None:
    """64 MiB in one piece hold sixteen tensors of 4 MB: weight, initial state, 14 iterations."""
    done = gpu_cli(
        *("scenario=python_loop", "scenario.gradient=tape", "scenario.size=1000"),
        *("batch_size=1000", "device=gpu", "device.memory_limit_mb=64", *BRIEF),
    )
    assert done.returncode == 1, done.stderr
    (folder,) = (outputs / "runs").glob("*/*")
    record = records.read(folder)
    assert (record.outcome.status, record.outcome.phase) == ("out_of_memory", "first_call")
    said = (
        "MatMul asked for 4.00 MB ([1000, 1000] float32) of GPU:0 while 64.0 MB were live, "
        "under a cap of 64 MiB (67.1 MB)"
    )
    assert (record.outcome.reason or "").splitlines()[0] == said
    assert said in done.stdout
    (trial,) = record.trials
    assert trial.facts.out_of_memory is not None
    assert trial.facts.out_of_memory.bytes == 4_000_000
    assert trial.facts.out_of_memory.live_bytes == 16 * 4_000_000 + 2 * SCALAR
    assert record.allocations is not None
    live = {group.op: group.count for group in record.allocations.groups}
    assert (live["MatMul"], live["Fill"]) == (14, 2)
    assert record.environment.comparable["device"] == "GPU:0, STANDIN"


def test_cpu_and_card_are_swept_together_and_compared(gpu_cli: Cli, outputs: Path) -> None:
    done = gpu_cli("-m", *LOOP, "device=cpu,gpu", *BRIEF)
    assert done.returncode == 0, done.stderr
    (folder,) = (outputs / "sweeps").glob("*/*")
    found = [records.read(cell) for cell in records.find(folder)]
    assert [record.trials[0].facts.device for record in found] == ["CPU:0", "GPU:0"]
    assert found[0].fingerprint != found[1].fingerprint

    compared = gpu_cli("compare", "--json", "--by", "device", str(folder))
    assert compared.returncode == 0, compared.stderr
    rows: dict[str, Any] = {row["metric"]: row for row in json.loads(compared.stdout)}
    peak = rows["tensor_peak_bytes"]
    assert (peak["baseline"], peak["candidate"], peak["verdict"]) == ("cpu", "gpu", "same")
    assert peak["candidate_value"] == WEIGHT + 3 * STATE + 2 * SCALAR
    assert rows["step_seconds"]["ratio"] > 0


def test_a_card_that_is_not_there_is_bad_input_that_names_those_that_are(
    gpu_cli: Cli, outputs: Path
) -> None:
    done = gpu_cli(*LOOP, "device=gpu", "device.index=3", *BRIEF)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "runner: device=gpu: TensorFlow sees no GPU:3 here; it sees CPU:0, GPU:0.",
        "  Say device.index=0, or device=cpu.",
    ]
    assert not outputs.exists()


def test_auto_takes_the_card_where_there_is_one(gpu_cli: Cli, outputs: Path) -> None:
    done = gpu_cli(*LOOP, "tracking=none", "measure.timing_processes=0")
    assert done.returncode == 0, done.stderr
    (folder,) = (outputs / "runs").glob("*/*")
    assert records.read(folder).trials[0].facts.device == "GPU:0"
