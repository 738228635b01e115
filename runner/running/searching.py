"""A plan whose next cells depend on what the last ones have shown.

A sweeper that searches asks for a few cells at a time; they are run as any are, in rounds, in the
one session that is open, and the sweeper is told what their records say. A cell that ran out of
memory, failed, or is outside the limits is told as worse than all others, and the search goes on.
A resumed search asks for the same cells again: those that have a record answer from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner import places, records
from runner.composing import composition
from runner.errors import BadInput, Interrupted
from runner.isolation.server import Server
from runner.judging.objective import Objective
from runner.plan import Plan, Planned
from runner.records import RECORD_FILE
from runner.running import engine
from runner.running.engine import Observer, Publisher, Result
from runner.running.lifecycle import Run

_LEFT_BY_OPTUNA = "optimization_results.yaml"
"""Told of in the records; what has no figures would have some there."""


def run_all(
    plan: Plan,
    words: Sequence[str],
    folder: Path,
    server: Server,
    machine: Mapping[str, Any],
    observer: Observer,
    publisher: Publisher,
) -> Result:
    """Run what the sweeper asks for, until it asks no more."""
    objective = Objective.of(plan.cells[0].search)
    seed = plan.cells[0].experiment.seed
    runs: dict[int, Run] = {}
    told: dict[int, list[float]] = {}

    def ask(cells: Sequence[Planned]) -> list[list[float]]:
        wanted = {cell.number: cell for cell in cells if cell.number not in told}
        batch = [_open(cell, folder, plan) for cell in wanted.values()]
        runs.update({run.planned.number: run for run in batch})
        engine.check_code(list(runs.values()))
        result = engine.run_all(batch, folder, server, machine, observer, publisher, seed)
        if result.interrupted:
            raise result.interrupted
        for run in batch:
            told[run.planned.number] = objective.told(records.read_brief(run.folder))
        return [told[cell.number] for cell in cells]

    interrupted = None
    try:
        composition.search(words, folder, ask)
    except Interrupted as stop:
        if not runs:
            raise
        interrupted = stop
    finally:
        with suppress(OSError):
            (folder / _LEFT_BY_OPTUNA).unlink()
    return Result(folder, tuple(run.outcome for run in runs.values()), interrupted)


def _open(cell: Planned, folder: Path, plan: Plan) -> Run:
    """A cell in its folder; of a resumed search, where it was the same cell."""
    place = folder / str(cell.number)
    if (place / RECORD_FILE).exists():
        there = records.read_brief(place).cell
        if there != cell.experiment.cell:
            raise BadInput(
                f"resume={places.relative(folder)}: the sweeper now asks for a cell {cell.number} "
                "that differs from the recorded one.",
                "Its version may have changed. Leave resume out to search anew.",
            )
    return engine.open_cell(cell, folder, plan.swept, None, in_rounds=False)
