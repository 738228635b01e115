"""Is a program that feeds NumPy's arrays the same figure in every command, and the right one?

Fifty commands, each a process with a server of its own and so a heap of its own, measure the same
programs at sizes from 4 bytes to 40 MB. Printed are the distinct figures that all commands gave,
and the known truth beside them. In the environment `TIMES=3` makes it a quick look, and
`ONLY=held,fit` a part of it.

python -m tests.benchmarks numpy_arrays
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from runner import paths

TIMES = int(os.environ.get("TIMES", "50"))
SIZES = (1, 1_000, 100_000, 10_000_000)
PROGRAMS = "tests.benchmarks._numpy_programs"


def _row_bytes(elements: int) -> int:
    return 4 * max(1, elements // 8)


TRUTH: dict[str, tuple[str, Callable[[int], int | None]]] = {
    "held": ("tensor_live_bytes", lambda elements: 4 * 4 * elements),
    "held_before": ("tensor_live_bytes", lambda elements: 4 * 4 * elements),
    "fed": ("tensor_step_peak_bytes", lambda elements: 4 * elements),
    "fed_slices": ("tensor_step_peak_bytes", lambda elements: 3 * 2 * _row_bytes(elements)),
    "generator": ("tensor_live_bytes", lambda elements: 3 * 4 * elements),
    "tensor_slices": ("tensor_live_bytes", lambda elements: 8 * _row_bytes(elements) + 64),
    "py_function": ("tensor_live_bytes", lambda elements: 3 * 4 * elements),
    "traced_constant": ("tensor_live_bytes", lambda elements: 2 * 4 * elements),
    "converted": ("tensor_step_peak_bytes", lambda elements: 5 * 4 * elements),
    "scalars": ("tensor_live_bytes", lambda elements: 6 * 4),
    "fit": ("tensor_peak_bytes", lambda elements: None),
}
"""By which metric a program is read, and what it takes: the 64 bytes are the dataset's handle; what
Keras keeps of its own nobody has counted."""


def main() -> None:
    names = os.environ.get("ONLY", ",".join(TRUTH)).split(",")
    seen: dict[tuple[str, int], Counter[int | None]] = defaultdict(Counter)
    for number in range(TIMES):
        for key, value in measure(names):
            seen[key][value] += 1
        print(f"command {number + 1} of {TIMES}", file=sys.stderr, flush=True)
    print(f"{TIMES} commands{'':<18}{'elements':>10}  {'truth':>12}  figures")
    same = right = known = 0
    for (name, elements), figures in sorted(seen.items()):
        truth = TRUTH[name][1](elements)
        same += len(figures) == 1
        known += truth is not None
        right += truth is not None and set(figures) == {truth}
        told = ", ".join(f"{value:,} in {times}" for value, times in figures.most_common())
        expected = "not known" if truth is None else f"{truth:,}"
        print(f"{name:<28}{elements:>10,}  {expected:>12}  {told}")
    print(f"the same in every command: {same} of {len(seen)} cells; the truth: {right} of {known}")


def measure(names: list[str]) -> list[tuple[tuple[str, int], int | None]]:
    """Run one command, and return the figure of each program and size."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *("-m", "scenario=callable", "tracking=none", "measure.memory_steps=3"),
            *("measure.timing_processes=0", "measure.host_processes=0"),
            f"scenario.target={','.join(f'{PROGRAMS}:{name}' for name in names)}",
            f"+scenario.arguments.elements={','.join(map(str, SIZES))}",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "runner", *words],
            cwd=paths.find_clone(),
            env={**os.environ, "RUNNER_OUTPUTS": folder},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found = []
        for file in Path(folder).rglob("record.json"):
            record = json.loads(file.read_text())
            parameters = record["spec"]["parameters"]
            name = parameters["target"].partition(":")[2]
            key = name, parameters["arguments"]["elements"]
            found.append((key, record["metrics"][TRUTH[name][0]]))
    return found


if __name__ == "__main__":
    main()
