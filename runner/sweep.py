"""Running a plan: all cells' trials in rounds, so that a slow minute hits all cells alike.

A round takes each cell's next trial, in shuffled order; a run is a plan of one. Between trials the
parent writes, draws and publishes; during one it sleeps. What is finished is on the disk at once,
so `resume` opens the same folders again and runs only what is missing.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runner import lifecycle, records
from runner.compose import Plan, Planned
from runner.errors import BadInput, Interrupted
from runner.isolation.server import Server
from runner.isolation.worker import Assignment
from runner.lifecycle import Run
from runner.records import Record, Status

PLAN_FILE = "plan.json"


class Observer(Protocol):
    """Who looks on: the console. Called between trials only, but for `phase` in memory trials."""

    def begins(self, runs: Sequence[Run], folder: Path) -> None: ...

    def trial(self, run: Run, assignment: Assignment) -> None: ...

    def phase(self, name: str) -> None: ...

    def ended(self, run: Run, seconds: float) -> None: ...


class Publisher(Protocol):
    """Who shows records: the tracking store, or nobody."""

    def wait_ready(self) -> None: ...

    def publish(self, folder: Path) -> None: ...


@dataclass(frozen=True)
class Result:
    """What came of a plan."""

    folder: Path
    records: tuple[Record, ...]
    interrupted: Interrupted | None

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return self.interrupted.exit_code
        return 0 if all(record.outcome.completed for record in self.records) else 1


def open_plan(plan: Plan, folder: Path) -> list[Run]:
    """The runs of a plan in their folders, those of a resumed sweep as far as they had come."""
    if not plan.is_sweep:
        return [lifecycle.open_run(plan.cells[0], folder)]
    _remember(plan, folder)
    return [
        lifecycle.open_run(planned, folder / str(planned.number), _sweep_tag(plan, planned, folder))
        for planned in plan.cells
    ]


def _sweep_tag(plan: Plan, planned: Planned, folder: Path) -> dict[str, Any]:
    """What a cell's record says of its sweep: which, and what was varied."""
    words = dict(word.lstrip("+").partition("=")[::2] for word in planned.overrides)
    return {
        "id": "-".join(folder.parts[-2:]),
        "cell": planned.number,
        "swept": {key: words.get(key) for key in plan.swept},
    }


def _remember(plan: Plan, folder: Path) -> None:
    """Note the grid in the sweep's folder, or refuse to resume a different one."""
    path = folder / PLAN_FILE
    cells = [planned.experiment.cell for planned in plan.cells]
    if path.exists():
        if json.loads(path.read_text())["cells"] != cells:
            raise BadInput(
                f"resume={lifecycle.relative(folder)}: that sweep was started with another grid.",
                "Repeat the words it was started with (its plan.json has them), or start anew.",
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    words = [list(planned.overrides) for planned in plan.cells]
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps({"cells": cells, "swept": plan.swept, "overrides": words}))
    scratch.replace(path)


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
    finished: dict[int, Record] = {}
    interrupted: Interrupted | None = None
    observer.begins(runs, folder)
    try:
        for run in runs:
            if run.next is None:
                finished[id(run)] = _finish(run, machine, publisher)
        waited = False
        for run in _rounds(runs, random.Random(seed)):
            assignment = run.next
            assert assignment is not None
            if assignment.kind == "timing" and not waited:
                publisher.wait_ready()  # its preparation must not run beside a timing trial
                waited = True
            with _timed(observer, run, assignment):
                trial = server.run(
                    assignment,
                    run.experiment.measure.timeout_seconds,
                    observer.phase if assignment.kind == "memory" else _ignore,
                )
                lifecycle.add_trial(run, trial)
            if run.next is None:
                finished[id(run)] = _finish(run, machine, publisher)
    except Interrupted as stop:
        interrupted = stop
        for run in runs:
            lifecycle.interrupt(run, str(stop))
            if id(run) not in finished:
                finished[id(run)] = lifecycle.close_run(run, machine)
    return Result(folder, tuple(finished[id(run)] for run in runs), interrupted)


def _finish(run: Run, machine: Mapping[str, Any], publisher: Publisher) -> Record:
    """A record that is there already, of a resumed sweep, is kept as it is."""
    path = run.folder / records.RECORD_FILE
    if path.exists():
        record = records.read(path)
        if record.outcome.status is not Status.INTERRUPTED:
            return record
    record = lifecycle.close_run(run, machine)
    publisher.publish(run.folder)
    return record


def _rounds(runs: Sequence[Run], shuffler: random.Random) -> Iterator[Run]:
    """Every run that still lacks evidence, once a round."""
    while missing := [run for run in runs if run.next is not None]:
        shuffler.shuffle(missing)
        yield from missing


@contextmanager
def _timed(observer: Observer, run: Run, assignment: Assignment) -> Iterator[None]:
    observer.trial(run, assignment)
    started = time.monotonic()
    yield
    observer.ended(run, time.monotonic() - started)


def _ignore(_: str) -> None:
    """A timing trial is not drawn while it runs."""
