"""How long 200 memory trials take on two workers of a cluster, over two at a time without one.

    python -m tests.benchmarks cluster

Slurm and Ray have two nodes of one core each, on this machine, in a network namespace: it needs
root and their packages. Whole commands are timed, in turns with those here.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from tests.resuming import only
from tests.system.cluster.conftest import HERE, Cluster, open_cluster

ROUNDS = 3
WORDS = (
    *("-m", "scenario=large_tensor", "seed=range(200)", "measure.timing_processes=0"),
    *("measure.side_by_side=2", "tracking=none"),
)


def main() -> None:
    for kind in ("submitit_slurm", "ray"):
        ratios, tables = [], set[str]()
        with open_cluster(kind) as cluster:
            for _ in range(ROUNDS):
                here, table = sweep(HERE)
                there, other = sweep(cluster)
                ratios.append(there / here)
                tables |= {table, other}
                print(
                    f"  {kind} / here: {there:.0f} s / {here:.0f} s = {there / here:.2f}",
                    flush=True,
                )
        same = "the tables are equal" if len(tables) == 1 else "THE TABLES DIFFER"
        print(
            f"200 memory trials, two workers of {kind} / two at a time here: "
            f"{statistics.median(ratios):.2f}  [at most 1.3]; {same}"
        )


def sweep(cluster: Cluster) -> tuple[float, str]:
    """Return the seconds that the sweep takes, and its table."""
    with tempfile.TemporaryDirectory() as name:
        outputs, started = Path(name), time.monotonic()
        process = cluster.start(outputs, outputs, *WORDS)
        _, said = process.communicate()
        assert process.returncode == 0, said
        return time.monotonic() - started, (only(outputs) / "table.csv").read_text()
