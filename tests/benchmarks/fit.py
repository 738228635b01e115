"""`fit` on five scenarios: is its answer right, the same again, and cheaper than bisection?

    python -m tests.benchmarks fit                10 minutes

Each search is made three times. Its answer and the next value are then run plainly: the first must
complete, the second run out of memory. Bisection over the same range, from 1 to `max`, is counted
and not run; its answer would go through the same timing trials. What fails costs ten seconds more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import records
from tests.unit.fit.bisection import bisection

REPEATS = 3
BRIEF = ("measure.timing_processes=1", "measure.steps=20", "measure.max_seconds=0.5")

SCENARIOS = {
    "iterations of a taped loop": (
        *("vary=scenario.iterations", "max=1000", "device.memory_limit_mb=64"),
        *("scenario=python_loop", "scenario.gradient=tape"),
        *("scenario.size=200", "batch_size=200"),
    ),
    "batch of dense layers": (
        *("vary=batch_size", "max=100000", "device.memory_limit_mb=64"),
        *("scenario=dense_batch", "scenario.gradient=tape"),
    ),
    "batch of an MLP": (
        *("vary=batch_size", "max=100000", "device.memory_limit_mb=64"),
        *("scenario=keras_training", "scenario.model=mlp"),
    ),
    "batch of a transformer": (
        *("vary=batch_size", "max=1000", "device.memory_limit_mb=256"),
        *("scenario=keras_training", "scenario.model=transformer", "execution=graph"),
    ),
    "size of a tensor": (
        *("vary=scenario.size", "max=10000", "device.memory_limit_mb=64"),
        *("scenario=large_tensor",),
    ),
}


@dataclass(frozen=True)
class Found:
    """What one search told, and how many of its probes failed."""

    largest: int
    fails: int
    varies: bool
    trials: int
    failing: int


def main() -> None:
    for name, words in SCENARIOS.items():
        found = [_fit(words) for _ in range(REPEATS)]
        # Where memory varies the answers may differ; the least is the safe end of all.
        safe = min(found, key=lambda each: each.largest)
        most = int(next(word for word in words if word.startswith("max=")).removeprefix("max="))
        probes, failing = bisection(safe.largest, most)
        answers = sorted({each.largest for each in found})
        print(
            f"{name}: {' / '.join(f'{answer:,}' for answer in answers)}"
            f"{' (memory varies)' if safe.varies else ''}; "
            f"run plainly {safe.largest:,} {_plainly(words, safe.largest)}, "
            f"{safe.fails:,} {_plainly(words, safe.fails)}; "
            f"trials {' '.join(str(each.trials) for each in found)} "
            f"({' '.join(str(each.failing) for each in found)} that fail), "
            f"bisection {probes + 1} ({failing})",
            flush=True,
        )


def _fit(words: tuple[str, ...]) -> Found:
    with tempfile.TemporaryDirectory() as outputs:
        done = _runner(outputs, "fit", "--json", *words, *BRIEF)
        assert done.returncode == 0, done.stdout + done.stderr
        told: dict[str, Any] = json.loads(done.stdout)[0]
        (file,) = Path(outputs).rglob("probes.jsonl")
        fits = [json.loads(line)["fits"] for line in file.read_text().splitlines()]
    assert told["fails"] is not None, "it ended at its max: raise that"
    return Found(told["largest"], told["fails"], told["varies"], told["trials"], fits.count(False))


def _plainly(words: tuple[str, ...], value: int) -> str:
    """How a run of its own ends."""
    field = words[0].removeprefix("vary=")
    rest = [word for word in words[2:] if not word.startswith(f"{field}=")]
    with tempfile.TemporaryDirectory() as outputs:
        _runner(outputs, *rest, f"{field}={value}", *BRIEF, "tracking=none")
        (folder,) = records.find(Path(outputs))
        return records.read(folder).outcome.status.replace("_", " ")


def _runner(outputs: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runner", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "RUNNER_OUTPUTS": outputs},
    )
