"""The life of one run, from its folder to its record.

    open       a folder of its own, the composed configuration and the log in it
    trials     each one appended to trials.jsonl as it ends, on the disk before the next begins
    close      samples -> metrics -> record.json; every view is made from that

The samples live in the folder, not in memory: a run that was cut short is opened again by the same
function and goes on with the trial that is missing, and a thousand cells weigh no more than one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner import places, records
from runner.allocations import Allocations
from runner.code import Files
from runner.config import Experiment
from runner.judging import estimate, repeats
from runner.plan import Assignment, Planned
from runner.records import COMPLETED, Outcome, Phase, Record, Status, Trial
from runner.running import environment
from runner.running.folders import log_file

CONFIG_FILE = "config.yaml"


@dataclass(slots=True)
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
    """What is planned so far: a graph's peak may ask for more memory trials as it goes on."""
    memory_trials: list[Trial] = field(default_factory=list)
    """What decides about that, without their allocations and steps."""
    code: Files = field(default_factory=dict)
    """The user's own that the trials loaded."""

    @property
    def experiment(self) -> Experiment:
        return self.planned.experiment

    @property
    def id(self) -> str:
        return "-".join(self.folder.parts[-3:] if self.sweep else self.folder.parts[-2:])

    @property
    def next(self) -> Assignment | None:
        """The trial to run next; None once the evidence is complete, or a trial has ended badly."""
        return self.assignments[self.done] if self.done < len(self.assignments) else None


def open_run(planned: Planned, folder: Path, sweep: Mapping[str, Any] | None = None) -> Run:
    """A run in its folder, with the trials that are there already counted as done."""
    log_file(folder)
    (folder / records.TRIALS_FILE).touch()
    config = folder / CONFIG_FILE
    if not config.exists():
        places.write(config, planned.composed)
    modified = datetime.fromtimestamp(config.stat().st_mtime, UTC)
    run = Run(planned, folder, sweep, modified.isoformat(timespec="milliseconds"))
    run.assignments = assignments(planned.experiment)
    if not planned.experiment.supported:
        run.outcome = Outcome(Status.UNSUPPORTED, None, planned.experiment.unsupported_reason)
        run.assignments = []
    for trial in records.read_trials(folder):
        if trial.outcome.status is not Status.INTERRUPTED:
            _count(run, trial)
    if run.next is None and (folder / records.RECORD_FILE).exists():
        run.closed = records.read_brief(folder).outcome == run.outcome
    return run


def assignments(experiment: Experiment) -> list[Assignment]:
    """What is known to be needed: `_plan_another` adds to it. Memory first: it finds out-of-memory
    before time is spent; but under a limit on host memory a timing trial, which alone keeps it."""
    measure = experiment.measure
    planned = [
        Assignment(experiment, kind, index)
        for kind, count in (
            ("memory", measure.memory_processes),
            ("timing", measure.timing_processes),
            ("host", measure.host_processes),
        )
        for index in range(count)
    ]
    if measure.host_limit_mb is not None:
        planned.sort(key=lambda each: not (each.is_timed and each.index == 0))
    return planned


def add_trial(run: Run, trial: Trial) -> None:
    records.append_trial(trial, run.folder)
    _count(run, trial)


def _count(run: Run, trial: Trial) -> None:
    run.done += 1
    run.code |= trial.facts.get("code", {})
    if not trial.outcome.completed:
        run.outcome = trial.outcome if run.outcome.completed else run.outcome
        left = run.assignments[run.done :] if _can_be_explained(trial.outcome) else []
        run.assignments[run.done :] = [each for each in left if each.kind == "host"]
    elif trial.kind == "memory":
        run.memory_trials.append(replace(trial, phases={}, steps={}, allocations=None))
        _plan_another(run)


def _can_be_explained(outcome: Outcome) -> bool:
    """Whether what grew may be what ended it. Then a host trial, which takes fewer steps, says what
    that was."""
    grown = outcome.status in (Status.OUT_OF_MEMORY, Status.TIMED_OUT, Status.KILLED)
    return grown and outcome.phase in (Phase.STEPS, Phase.RELEASE)


def _plan_another(run: Run) -> None:
    """One more memory trial where all planned ones are done and don't tell the peak yet. It comes
    next, before time is spent; a run that is opened again decides the same from the same trials."""
    done = len(run.memory_trials)
    planned = any(each.kind == "memory" for each in run.assignments[run.done :])
    if planned or not run.planned.seeks_peak:
        return
    if repeats.needs_more(run.memory_trials, run.experiment.execution):
        run.assignments.insert(run.done, Assignment(run.experiment, "memory", done))


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
    if code := environment.of_users([trial.facts.get("code", {}) for trial in trials]):
        surroundings["code"] = code
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
        run.outcome, run.assignments = Outcome(status, None, reason), run.assignments[: run.done]
