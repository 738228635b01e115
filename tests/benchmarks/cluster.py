"""How long 200 memory trials take on two workers of Dask, over two at a time without; and a step.

    python -m tests.benchmarks cluster

The workers are of this machine, and jobs of a real Slurm of two nodes of one core each in a network
namespace: it needs root and its packages. Whole commands are timed, in turns with those here: each
ratio is of two that ran one after the other, the median and the range of all are printed.
RUNNER_TEST_ROUNDS says how often.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

import pandas

from tests.resuming import only
from tests.system.cluster import network, slurm
from tests.system.cluster.conftest import Cluster

ROUNDS = int(os.environ.get("RUNNER_TEST_ROUNDS", "3"))
MEMORY = (
    *("-m", "scenario=large_tensor", "seed=range(200)", "measure.timing_processes=0"),
    *("measure.side_by_side=2", "tracking=none"),
)
TIME = (
    *("-m", "scenario=dense_batch", "batch_size=128", "scenario.width=512", "seed=range(1)"),
    *("measure.memory_processes=0", "measure.timing_processes=3", "tracking=none"),
)
"""Steps of about a millisecond."""
HERE, LOCAL = Cluster(), Cluster(("hydra/launcher=dask",))


def main() -> None:
    compare("local", LOCAL)
    with network.namespace() as own, slurm.running(own) as environment:
        compare("slurm", Cluster(("hydra/launcher=slurm",), own.inside, environment))
    compare_steps()


def compare_steps() -> None:
    one = Cluster((*LOCAL.words, "hydra.launcher.workers=1"))
    ratios, steps = [], []
    for number in range(3 * ROUNDS):
        if number % 2:
            here, there = find_step_seconds(HERE), find_step_seconds(one)
        else:
            there, here = find_step_seconds(one), find_step_seconds(HERE)
        ratios.append(there / here)
        steps.append(here)
        print(f"  a step on one worker / here: {ratios[-1]:.3f}", flush=True)
    low, median, high = statistics.quantiles(ratios, n=4)
    print(
        f"a step of {statistics.median(steps) * 1e3:.2f} ms, on one worker / here: {median:.3f}, "
        f"half of {len(ratios)} ratios within {low:.3f} to {high:.3f}  [0.98 to 1.02]"
    )


def find_step_seconds(cluster: Cluster) -> float:
    return float(pandas.read_csv(sweep(cluster, TIME)[1]).step_seconds.median())


def compare(kind: str, cluster: Cluster) -> None:
    ratios, tables = [], set[str]()
    for _ in range(ROUNDS):
        here, there = sweep(HERE, MEMORY), sweep(cluster, MEMORY)
        ratios.append(there[0] / here[0])
        tables |= {here[1].read_text(), there[1].read_text()}
        print(f"  {kind} / here: {there[0]:.0f} s / {here[0]:.0f} s = {ratios[-1]:.2f}", flush=True)
    same = "the tables are equal" if len(tables) == 1 else "THE TABLES DIFFER"
    print(
        f"200 memory trials, two workers of {kind} / two at a time here: "
        f"{statistics.median(ratios):.2f}  [at most 1.3]; {same}",
        flush=True,
    )


def sweep(cluster: Cluster, words: tuple[str, ...]) -> tuple[float, Path]:
    """Return the seconds that the sweep takes, and its table."""
    outputs, started = Path(tempfile.mkdtemp()), time.monotonic()
    process = cluster.start(outputs, outputs, *words)
    _, said = process.communicate()
    assert process.returncode == 0, said
    return time.monotonic() - started, only(outputs) / "table.csv"
