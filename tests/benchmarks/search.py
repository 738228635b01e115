"""A search against the whole grid: how much of the grid's front it finds, and in how many cells.

python -m tests.benchmarks search

The 48 cells of `experiment=memory_for_speed` are measured once, every one; what a search over them
would have found is then played from their records, for five seeds and four of Optuna's samplers, by
the product's own way (only that nothing is measured again). At last it is searched for real, once.
`GRID=PATH` in the environment names a grid that was measured before.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from runner import records
from runner.analysis.objective import Objective
from runner.compose import composition
from runner.engine.grid import Grid
from runner.engine.measure import measure
from runner.engine.preload import preload
from runner.engine.requests import Source
from runner.engine.run import Run
from runner.engine.scheduler import LocalExecutor
from runner.records import Record
from runner.render.text.progress import Progress
from runner.search.source import SearchSource

WORDS = ["experiment=memory_for_speed", "tracking=none"]
SAMPLERS = ("front", "tpe", "nsgaii", "random")
SEEDS = range(5)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        plan = composition.compose_plan(WORDS)
        assert plan.search
        objective = Objective(plan.search.metrics, plan.search.limits)
        grid = Path(os.environ.get("GRID") or Path(scratch) / "grid")
        if not grid.exists():
            _measured(Grid(replace(plan, search=None)), grid)
        table = {each.cell: each for each in map(records.read_brief, records.find(grid))}
        front = {each.cell for each in objective.find_front([*table.values()])}
        print(f"{len(table)} cells, {len(front)} of them the front: {objective.words}")
        for sampler in SAMPLERS:
            found = [_played(sampler, seed, table) for seed in SEEDS]
            shares = [len(front & set(asked)) / len(front) for asked in found]
            close = [_reached(asked, table, objective) for asked in found]
            print(
                f"{sampler:<8} {min(map(len, found))} to {max(map(len, found))} cells, "
                f"{statistics.mean(shares):.0%} of the front (seeds: "
                f"{', '.join(f'{share:.0%}' for share in shares)}), "
                f"{statistics.mean(close):.1%} of the grid's cells are reached"
            )
        searched = Path(scratch) / "searched"
        _measured(SearchSource(plan, WORDS), searched)
        asked = [records.read_brief(each).cell for each in records.find(searched)]
        print(
            f"for real: {len(asked)} cells, {len(front & set(asked))} of the {len(front)} on the "
            f"grid's front; {_reached(asked, table, objective):.1%} of its cells are reached"
        )


def _measured(source: Source, folder: Path) -> None:
    with preload() as server:
        result = measure(source, folder, LocalExecutor(server), [Progress()])
    assert not result.stopped


def _played(sampler: str, seed: int, table: dict[str, Record]) -> list[str]:
    """Return the cells that a search asks for, told what their records say."""
    words = [f"hydra/sweeper/sampler={sampler}", f"hydra.sweeper.sampler.seed={seed}"]
    source, asked = SearchSource(composition.compose_plan([*WORDS, *words])), list[str]()
    while requests := source.ask():
        for request in requests:
            experiment = request.cell.experiment
            asked.append(experiment.cell)
            record = table[experiment.cell]
            run = SimpleNamespace(experiment=experiment, get_record=lambda record=record: record)
            source.tell(cast(Run, run))
    return asked


def _reached(asked: Sequence[str], table: dict[str, Record], objective: Objective) -> float:
    """The share of the grid's cells, front or not, that something found is as good as."""
    known = [values for each in asked if (values := objective.get_values(table[each])) is not None]
    of_all = [
        values for each in table.values() if (values := objective.get_values(each)) is not None
    ]
    reached = sum(
        any(all(a <= b for a, b in zip(one, other, strict=True)) for one in known)
        for other in of_all
    )
    return reached / len(of_all)
