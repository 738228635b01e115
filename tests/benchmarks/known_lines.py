"""How many bytes of the peak have a line of the user's or the scenario's, over all scenarios and
executions with the parameters that their files give them; what has none, and why.

python -m tests.benchmarks known_lines
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from runner.allocations import Allocations
from runner.cell import TrialSpec
from runner.compose import composition
from runner.processes.server import TrialServer
from tests.integration.scenarios.test_contract import NEEDED, WORKING


def main() -> None:
    known, total, wrong, without = 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        server = TrialServer(Path(folder) / "server.log")
        server.start()
        for name, execution in WORKING:
            found = _allocations(server, name, execution)
            sums = sum(line.bytes for line in found.lines)
            if sums != found.total_bytes:
                wrong += 1
                print(f"{name} {execution}: {sums:,} of {found.total_bytes:,} bytes in lines")
            unknown = _unknown(found)
            without += bool(unknown)
            known += sums - unknown.total()
            total += found.total_bytes
            for why, size in unknown.most_common():
                share = size / found.total_bytes
                print(f"{name} {execution}: {size:,} bytes, {share:.2%}: {why}", flush=True)
        server.stop()
    print(
        f"{len(WORKING)} cells, {wrong} whose lines don't sum to the peak, {without} with bytes "
        f"that have no line of the user's or the scenario's; {known / total:.4%} of all have one"
    )


def _allocations(server: TrialServer, name: str, execution: str) -> Allocations:
    said = [f"scenario={name}", f"execution={execution}", *NEEDED.get(name, ())]
    words = [*said, "measure.memory_steps=3"]
    experiment = composition.compose_plan(words).cells[0].experiment
    trial = server.run(TrialSpec(experiment, "memory", 0), 600)
    assert trial.outcome.completed, (name, execution, trial.outcome)
    assert trial.allocations is not None, (name, execution)
    return trial.allocations


def _unknown(allocations: Allocations) -> Counter[str]:
    """By what is made there, and the reason or the library's line."""
    found: Counter[str] = Counter()
    for line in allocations.lines:
        if line.file is None or line.is_library:
            at = line.why or f"made by {line.file}:{line.line}"
            for part in line.parts:
                found[f"{part.op}, {at}"] += part.bytes
    return found
