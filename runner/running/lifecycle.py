"""The life of one run, from its folder to its record.

    open       a folder of its own, the composed configuration and the log in it
    trials     each one appended to trials.jsonl as it ends, on the disk before the next begins
    close      samples -> metrics -> record.json; every view is made from that

The samples live in the folder, not in memory: a run that was cut short is opened again by the same
function and goes on with the trial that is missing, and a thousand cells weigh no more than one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from runner import places, records
from runner.allocations import Allocations
from runner.composing.composition import Planned
from runner.config import Experiment
from runner.errors import BadInput
from runner.judging import estimate
from runner.records import COMPLETED, Outcome, Record, Status, Trial
from runner.running import environment
from runner.trial.worker import Assignment

CONFIG_FILE = "config.yaml"
LOG_FILE = "run.log"

Kind = Literal["runs", "sweeps", "fits", "claims"]


def new_folder(kind: Kind) -> Path:
    """`outputs/KIND/DATE/TIME`, not yet made; TIME carries what makes it unique."""
    now = datetime.now()
    name = f"{now:%H-%M-%S}-{secrets.token_hex(2)}"
    return places.outputs() / kind / f"{now:%Y-%m-%d}" / name


@contextmanager
def held(folder: Path, wait: bool = False) -> Iterator[bool]:
    """Nobody else can hold the folder meanwhile; or, if it yields False, somebody else does. The
    folder is made if it is not there. A kill lets go of it."""
    make(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        except OSError:  # a network file system that can't lock a folder keeps nobody out
            pass
        yield True
    finally:
        os.close(descriptor)


def make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{folder}: can't be made ({error.strerror}).",
            "RUNNER_OUTPUTS names the folder for results; name one that can be written to.",
        ) from None


@dataclass
class Run:
    """One cell on its way to a record."""

    planned: Planned
    folder: Path
    sweep: Mapping[str, Any] | None
    started_at: str
    done: int = 0
    """Trials that are on the disk, which is also the index of the next one."""
    outcome: Outcome = COMPLETED
    closed: bool = False
    """Whether its record is on the disk and says how it ended."""
    assignments: list[Assignment] = field(default_factory=list)

    @property
    def experiment(self) -> Experiment:
        return self.planned.experiment

    @property
    def id(self) -> str:
        return "-".join(self.folder.parts[-3:] if self.sweep else self.folder.parts[-2:])

    @property
    def next(self) -> Assignment | None:
        """The trial to run next; None once the evidence is complete, or a trial has ended badly."""
        over = not self.outcome.completed or self.done >= len(self.assignments)
        return None if over else self.assignments[self.done]


def open_run(planned: Planned, folder: Path, sweep: Mapping[str, Any] | None = None) -> Run:
    """A run in its folder, with the trials that are there already counted as done."""
    log_file(folder)
    (folder / records.TRIALS_FILE).touch()
    config = folder / CONFIG_FILE
    if not config.exists():
        scratch = folder / f".{CONFIG_FILE}.{os.getpid()}"
        scratch.write_text(planned.composed)
        scratch.replace(config)
    modified = datetime.fromtimestamp(config.stat().st_mtime, UTC)
    run = Run(planned, folder, sweep, modified.isoformat(timespec="milliseconds"))
    run.assignments = assignments(planned.experiment)
    if not planned.experiment.supported:
        run.outcome = Outcome(Status.UNSUPPORTED, None, planned.experiment.unsupported_reason)
    for trial in records.read_trials(folder):
        if trial.outcome.status is not Status.INTERRUPTED:
            _count(run, trial)
    if run.next is None and (folder / records.RECORD_FILE).exists():
        run.closed = records.read_brief(folder).outcome == run.outcome
    return run


def assignments(experiment: Experiment) -> list[Assignment]:
    """Memory first: it is exact after one trial, and finds out-of-memory before time is spent."""
    measure = experiment.measure
    return [
        Assignment(experiment, kind, index)
        for kind, count in (
            ("memory", measure.memory_processes),
            ("timing", measure.timing_processes),
        )
        for index in range(count)
    ]


def add_trial(run: Run, trial: Trial) -> None:
    records.append_trial(trial, run.folder)
    _count(run, trial)


def _count(run: Run, trial: Trial) -> None:
    run.done += 1
    if not trial.outcome.completed:
        run.outcome = trial.outcome


def close_run(run: Run, machine: Mapping[str, Any]) -> Record:
    """Make the record from what is on the disk, and write it before anything else sees it.

    Of the trials' allocations it keeps the highest peak's; trials.jsonl has them all.
    """
    trials = tuple(records.read_trials(run.folder))
    spec = run.experiment.spec
    estimated = estimate.summarise(trials, spec)
    facts: dict[str, Any] = {}
    for trial in trials:
        facts.update(trial.facts)
    surroundings, fingerprint = environment.for_record(machine, run.experiment, facts)
    record = Record(
        id=run.id,
        cell=run.experiment.cell,
        started_at=run.started_at,
        spec=spec,
        outcome=run.outcome,
        metrics=estimated.metrics,
        unavailable=estimated.unavailable,
        intervals=estimated.intervals,
        trials=tuple(replace(trial, allocations=None) for trial in trials),
        allocations=_at_the_highest_peak(trials),
        environment=surroundings,
        fingerprint=fingerprint,
        sweep=dict(run.sweep) if run.sweep else None,
    )
    records.write(record, run.folder)
    run.closed = True
    return record


def _at_the_highest_peak(trials: tuple[Trial, ...]) -> Allocations | None:
    seen = [trial.allocations for trial in trials if trial.allocations]
    return max(seen, key=lambda each: each.total_bytes, default=None)


def abandon(run: Run, status: Status, reason: str) -> None:
    """Where trials are missing the outcome says why. What was finished stays, and opened again the
    run goes on with what is missing."""
    if run.next is not None:
        run.outcome = Outcome(status, None, reason)


def log_file(folder: Path) -> Path:
    make(folder)
    path = folder / LOG_FILE
    path.touch()
    return path


def relative(path: Path) -> str:
    """The shorter of a path's two spellings, for a person to read."""
    spelled = os.path.relpath(path)
    return spelled if len(spelled) < len(str(path)) else str(path)
