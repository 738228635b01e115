"""Running a plan: all cells' trials in rounds, so that a slow minute hits all cells alike.

A round takes each cell's next trial, in shuffled order; a run is a plan of one. Memory trials may
run side by side (`company`), all others alone: between them the parent writes, draws and publishes;
during one it sleeps. What is finished is on the disk at once,
so `resume` opens the same folders again and runs only what is missing. Nothing of a finished cell
stays in memory but its outcome: a thousand cells weigh no more than ten.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runner import code, places
from runner.errors import BadInput, Interrupted
from runner.isolation.server import Server
from runner.judging.objective import Objective
from runner.plan import PLAN_FILE, Assignment, Plan, Planned
from runner.records import Outcome, Status, Trial
from runner.running import company, folders, lifecycle
from runner.running.interruption import uncut
from runner.running.lifecycle import Run


class Observer(Protocol):
    """Who looks on: the console. Called between trials only, but for `phase` in memory trials."""

    def begins(self, runs: Sequence[Run]) -> None: ...

    def trial(self, run: Run, assignment: Assignment) -> None: ...

    def phase(self, name: str) -> None: ...

    def ended(self, run: Run, assignment: Assignment, seconds: float) -> None: ...


class Publisher(Protocol):
    """Who shows records: the tracking store, or nobody."""

    def wait_ready(self) -> None: ...

    def publish(self, folder: Path) -> None: ...


class Nobody:
    """Looks on, and keeps nothing."""

    def begins(self, runs: Sequence[Run]) -> None: ...
    def trial(self, run: Run, assignment: Assignment) -> None: ...
    def phase(self, name: str) -> None: ...
    def ended(self, run: Run, assignment: Assignment, seconds: float) -> None: ...
    def wait_ready(self) -> None: ...
    def publish(self, folder: Path) -> None: ...


nobody = Nobody()


@dataclass(frozen=True)
class Result:
    """What came of a plan; the rest is in its folder."""

    folder: Path
    outcomes: tuple[Outcome, ...]
    """One a cell, in the plan's order."""
    interrupted: Interrupted | None = None
    goes_on: str | None = None
    """What was handed out and goes on all the same, and how to stop it."""

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return self.interrupted.exit_code
        return 0 if all(outcome.completed for outcome in self.outcomes) else 1


@contextmanager
def open_plan(plan: Plan, folder: Path, typed: Sequence[str] = ()) -> Iterator[list[Run]]:
    """The runs of a plan in their folders, those of a resumed sweep as far as they had come; nobody
    else can open, or clean away, the same meanwhile."""
    with folders.held(folder) as ours:
        if not ours:
            raise BadInput(
                f"resume={places.relative(folder)}: that sweep is still running.",
                "Wait until it ends, or end it first.",
            )
        if not plan.is_sweep:
            yield [lifecycle.open_run(plan.cells[0], folder)]
            return
        _remember(plan, folder, typed)
        if plan.search:
            yield []  # each is opened when it is asked for
            return
        runs = [open_cell(cell, folder, plan.swept, plan.launcher) for cell in plan.cells]
        check_code(runs)
        yield runs


def open_cell(
    planned: Planned,
    folder: Path,
    swept: Sequence[str],
    launcher: str | None,
    in_rounds: bool = True,
) -> Run:
    """A sweep's cell in its folder. Its record says of the sweep: which, what was varied, and
    whether its trials took turns with those of the other cells."""
    words = planned.said
    tag = {
        "id": sweep_id(folder),
        "cell": planned.number,
        "swept": {key: words.get(key) for key in swept},
        "launcher": launcher or "basic",
        "in_rounds": in_rounds and launcher is None,
    }
    return lifecycle.open_run(planned, folder / str(planned.number), tag)


def sweep_id(folder: Path) -> str:
    return "-".join(folder.parts[-2:])


def check_code(runs: Sequence[Run]) -> None:
    """Refuse to go on with other code of the user's than what is there was measured from."""
    if all(run.next is None for run in runs):
        return
    changed = {file: run for run in reversed(runs) for file in code.changed_since(run.code)}
    if changed:
        file, run = next(iter(changed.items()))
        many = f", nor are {len(changed) - 1} more files" if len(changed) > 1 else ""
        raise BadInput(
            f"resume: {file} is not what cell {run.planned.number} was measured from{many}.",
            "Restore the file as it was, or leave resume out to measure every cell anew.",
        )


def _remember(plan: Plan, folder: Path, typed: Sequence[str]) -> None:
    """Note the grid in the sweep's folder, or refuse to resume a different one."""
    path = folder / PLAN_FILE
    cells = [planned.experiment.cell for planned in plan.cells]
    search = plan.search and {
        "objective": Objective.of(plan.cells[0].search).to_json(),
        "sweeper": plan.search.sweeper,
    }
    if path.exists():
        there = folders.kept(path, {"cells": list[str]})
        if there["cells"] != cells or there.get("search") != search:
            what = "grid" if there["cells"] != cells else "way to search it"
            raise BadInput(
                f"resume={places.relative(folder)}: that sweep was started with another {what}.",
                "Repeat the words it was started with (its plan.json has them), or start anew.",
            )
        return
    words = [list(planned.overrides) for planned in plan.cells]
    noted: dict[str, Any] = {"cells": cells, "swept": plan.swept, "overrides": words}
    if search:
        noted |= {"search": search, "words": typed}
    places.write(path, json.dumps(noted))


def run_all(
    runs: Sequence[Run],
    folder: Path,
    server: Server,
    machine: Mapping[str, Any],
    observer: Observer,
    publisher: Publisher,
    seed: int,
) -> Result:
    """Run what is missing, in rounds, and close each run as its evidence is complete."""
    interrupted: Interrupted | None = None
    at_once = runs[0].experiment.measure.side_by_side if runs else None  # one for all of a plan

    def keep(run: Run, trial: Trial, seconds: float) -> None:
        assignment = run.next
        assert assignment is not None
        with uncut():
            lifecycle.add_trial(run, trial)
        if run.next is None:
            _finish(run, machine, publisher)
        observer.ended(run, assignment, seconds)

    try:
        observer.begins(runs)
        for run in runs:
            if run.next is None:  # resumed, or unsupported
                _finish(run, machine, publisher)
        several = company.Company(server, at_once)
        for together, alone in _rounds(runs, random.Random(seed), at_once):
            with closing(several.trials(together, observer.trial)) as ends:
                for end in ends:
                    keep(end.run, end.trial, end.seconds)
            for run in alone:
                assignment = _begins(run, observer)
                if assignment.is_timed:
                    publisher.wait_ready()  # nothing of its work may be done beside a timing trial
                started = time.monotonic()
                trial = server.run(
                    assignment,
                    run.experiment.measure.timeout_seconds,
                    nobody.phase if assignment.is_timed else observer.phase,
                    folders.log_file(run.folder),
                )
                keep(run, trial, time.monotonic() - started)
    except Interrupted as stop:
        interrupted = stop
        for run in runs:
            if not run.closed:
                lifecycle.abandon(run, Status.INTERRUPTED, str(stop))
                lifecycle.close_run(run, machine)
    return Result(folder, tuple(run.outcome for run in runs), interrupted)


def _finish(run: Run, machine: Mapping[str, Any], publisher: Publisher) -> None:
    """A record that is there already is kept as it is; the store may lack it all the same."""
    with uncut():
        if not run.closed:
            close(run, machine)
    publisher.publish(run.folder)


def close(run: Run, machine: Mapping[str, Any]) -> None:
    """The record of a run whose trials are over, and the files for other tools beside it."""
    from runner import report  # only what is measured has views

    lifecycle.close_run(run, machine)
    with suppress(OSError):  # the record is safe; `report` makes these again
        report.views(run.folder)


def _begins(run: Run, observer: Observer) -> Assignment:
    assignment = run.next
    assert assignment is not None
    observer.trial(run, assignment)
    return assignment


def _rounds(
    runs: Sequence[Run], shuffler: random.Random, at_once: int | None
) -> Iterator[tuple[list[Run], list[Run]]]:
    """Every run that still lacks evidence, once a round: those whose trials may have company first,
    as they tell of memory, then those that want to be alone."""
    while missing := [run for run in runs if run.next is not None]:
        shuffler.shuffle(missing)
        together = [run for run in missing if at_once != 1 and company.may_have(run)]
        if len(together) < 2:
            together = []
        beside = set(map(id, together))
        yield together, [run for run in missing if id(run) not in beside]
