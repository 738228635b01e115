"""One cell on its way to a record.

    open    a folder of its own, with the composed configuration and the log
    trials  each one is appended to trials.jsonl as it ends, on the disk before the next begins
    close   samples -> metrics -> record.json; every view is made from that

The samples live in the folder and not in memory: a run that was cut short is opened again by the
same function and continues with the trial that is missing, and a thousand cells take no more
memory than one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from runner import masking, paths, records, schema, user_code
from runner.analysis import estimate, repeatability
from runner.cell import Cell, TrialSpec
from runner.config import Experiment
from runner.engine import environment
from runner.engine.folders import is_own, make_log
from runner.engine.requests import Evidence, Request
from runner.errors import BadInput, CodeChanged
from runner.facts import StepSeries, TrialFacts
from runner.machine import Machine
from runner.records import COMPLETED, Outcome, Phase, Record, Status, SweepPlace, Trial
from runner.user_code import EDITED, Files, list_differing

CONFIG_FILE = "config.yaml"
_KINDS = ("memory", "timing", "host")


@dataclass(slots=True)
class Run:
    """The trials that a cell has, those that it still lacks, and how it ended."""

    request: Request
    folder: Path
    sweep: SweepPlace | None
    started_at: str
    machine: Machine
    done: Counter[str] = field(default_factory=Counter)
    """Trials on the disk, by kind."""
    outcome: Outcome = COMPLETED
    is_closed: bool = False
    """True if the record is on the disk and has the run's outcome."""
    memory_trials: list[Trial] = field(default_factory=list)
    """Without allocations and steps: they decide how many memory trials are needed."""
    code: Files = field(default_factory=dict)
    """The user's files that the trials loaded."""
    known_code: Files = field(default_factory=dict)
    """The same of all runs of the measurement, which share it."""
    is_foreign: bool = False
    """True if trials were there that no command of this user's has run."""
    _record: Record | None = None
    """The record, once it is on the disk and somebody has asked for it."""

    @property
    def cell(self) -> Cell:
        return self.request.cell

    @property
    def evidence(self) -> Evidence:
        return self.request.evidence

    @property
    def experiment(self) -> Experiment:
        return self.cell.experiment

    @property
    def id(self) -> str:
        return "-".join(self.folder.parts[-3:] if self.sweep else self.folder.parts[-2:])

    @property
    def next(self) -> TrialSpec | None:
        """The trial to run next; None when the evidence is there, or a trial has ended badly.

        Memory first: it finds an out-of-memory before time is spent on the clock. Under a limit on
        host memory the first timing trial comes before: it alone keeps to that limit.
        """
        is_limited = self.experiment.measure.host_limit_mb is not None
        order = ("timing", *_KINDS) if is_limited and not self.done["timing"] else _KINDS
        missing = self.count_missing()
        first = next((kind for kind in order if missing[kind]), None)
        if first is None:
            return None
        with_requests = self.evidence.with_requests and first == "memory"
        return TrialSpec(self.experiment, first, self.done[first], with_requests=with_requests)

    def count_missing(self, is_decided: bool = True) -> Counter[str]:
        """Return how many trials of each kind are still to run, as far as that is decided; or as it
        will be, if further memory trials show what the last one did."""
        wanted = {kind: getattr(self.evidence, kind) for kind in _KINDS}
        if not self.outcome.completed:
            wanted = {"host": wanted["host"]} if _can_be_explained(self.outcome) else {}
        elif self.evidence.settles_peak and (
            not is_decided or self.done["memory"] >= wanted["memory"]
        ):
            more = repeatability.count_more_trials(
                self.memory_trials, self.experiment.execution, self.experiment.measure.peak_seconds
            )
            settled = self.done["memory"] + (min(1, more) if is_decided else more)
            wanted["memory"] = max(wanted["memory"], settled)
        missing = {kind: count - self.done[kind] for kind, count in wanted.items()}
        return +Counter(missing)  # without those that are not missing

    def add_trial(self, trial: Trial) -> None:
        """Put a trial on the disk, and count it; raise `CodeChanged` if it ran other code of the
        user's than the trials before."""
        self._check_code(trial.facts.code or {})
        if secrets := self.experiment.secrets:  # the user's code may have printed them
            hidden = masking.hide_secrets(msgspec.to_builtins(trial), secrets)
            trial = msgspec.convert(hidden, Trial)
            masking.hide_secrets_in_file(make_log(self.folder), secrets)
        records.append_trial(trial, self.folder, self.experiment.cell)
        self.count_trial(trial)

    def _check_code(self, code: Files) -> None:
        function = self.experiment.function
        if function is not None:  # its own code was taken once, and given to each child
            taken = user_code.hash_files(function.files)
            code = {name: digest for name, digest in code.items() if name not in taken}
        edited = [name for name, digest in code.items() if digest == EDITED]
        changed = edited or list_differing(self.known_code, code)
        if changed:
            raise CodeChanged(
                f"{changed[0]} changed while it was measured; what was measured before is kept.",
                "Start anew; or restore the file as it was, and go on with resume=latest.",
            )

    def count_trial(self, trial: Trial) -> None:
        """Count a trial that is on the disk; one that failed decides the run's outcome."""
        self.done[trial.kind] += 1
        self.code |= trial.facts.code or {}
        self.known_code |= self.code
        if not trial.outcome.completed:
            self.outcome = trial.outcome if self.outcome.completed else self.outcome
        elif trial.kind == "memory":
            kept = replace(trial, phases={}, steps=StepSeries(), allocations=None)
            self.memory_trials.append(kept)

    def read_new_trials(self) -> list[Trial]:
        """Return the trials on the disk that are not counted yet; those interrupted never are."""
        trials = self.read_trials()
        ended = [trial for trial in trials if trial.outcome.status is not Status.INTERRUPTED]
        return ended[self.done.total() :]

    def read_trials(self) -> tuple[Trial, ...]:
        return tuple(records.read_trials(self.folder, self.experiment.cell))

    def pack(self) -> tuple[Request, dict[str, bytes]]:
        """Return what another machine needs to go on: the request, and the files so far."""
        kept = [self.folder / name for name in (records.TRIALS_FILE, environment.NODE_FILE)]
        files = {file.name: file.read_bytes() for file in kept if file.exists()}
        return replace(self.request, place="", swept=None), files

    def take(self, machine: Machine, files: Mapping[str, bytes]) -> list[Trial]:
        """Keep the files that another machine has gone on with, and return its trials; raise
        `CodeChanged` if one ran other code of the user's than trials elsewhere."""
        for line in files[records.TRIALS_FILE].splitlines():
            self._check_code(schema.decode(Trial, line).facts.code or {})
        self.machine = machine
        environment.keep_node(self.folder, machine)
        with make_log(self.folder).open("ab") as log:
            log.write(files[records.LOG_FILE])
        with paths.replace_file(self.folder / records.TRIALS_FILE) as scratch:
            scratch.write_bytes(files[records.TRIALS_FILE])
        trials = self.read_new_trials()
        for trial in trials:
            self.count_trial(trial)
        return trials

    def estimate_seconds(self) -> float:
        """Return about how long the missing trials take: as those before have, or else as the
        configuration lets them."""
        phases = [phase for trial in self.read_trials() for phase in trial.phases.values()]
        taken, done = sum(phase.seconds or 0.0 for phase in phases), self.done.total()
        return self.count_missing().total() * (
            taken / done if done else self.experiment.measure.max_seconds
        )

    def stop(self, status: Status, reason: str) -> None:
        """Set why trials are missing. Opened again, the run continues with them."""
        if self.next is not None:
            self.outcome = Outcome(status, None, reason)

    def get_record(self) -> Record:
        """Return the record: the one on the disk, which is read once at most, or one made of the
        trials so far, of a probe and where the one on the disk can't be read."""
        if self.is_closed and self._record is None:
            with suppress(BadInput):
                self._record = records.read(self.folder)
        return self._record or self.make_record()

    def close(self) -> Record:
        """Write the record before anything else sees it."""
        record = self._record = self.make_record()
        records.write(record, self.folder)
        self.is_closed = True
        return record

    def make_record(self) -> Record:
        """Make the record of the trials on the disk. Of their allocations it keeps the highest
        peak's; trials.jsonl has them all."""
        trials = self.read_trials()
        spec = self.experiment.spec
        estimated = estimate.estimate_metrics(trials, spec)
        facts = TrialFacts()
        for trial in trials:
            facts.update(trial.facts)
        code = environment.describe_user_code(
            [trial.facts.code or {} for trial in trials], asks_git=not self.is_foreign
        )
        surroundings, fingerprint = environment.make_environment(
            self.machine, self.experiment, facts, code
        )
        allocations = [trial.allocations for trial in trials if trial.allocations]
        return Record(
            id=self.id,
            cell=self.experiment.cell,
            started_at=self.started_at,
            spec=spec,
            outcome=self.outcome,
            metrics=estimated.metrics,
            unavailable=estimated.unavailable,
            intervals=estimated.intervals,
            trials=tuple(
                replace(
                    trial,
                    allocations=None,
                    facts=msgspec.structs.replace(trial.facts, requests=None),
                )
                for trial in trials
            ),
            allocations=max(allocations, key=lambda account: account.total_bytes, default=None),
            environment=surroundings,
            fingerprint=fingerprint,
            sweep=self.sweep,
        )


def open_run(
    request: Request, folder: Path, machine: Machine, sweep: SweepPlace | None = None
) -> Run:
    """Open a run in its folder; the trials that are there already count as done.

    One whose record can't be read is over, and nobody touches that file.
    """
    make_log(folder)
    (folder / records.TRIALS_FILE).touch()
    config = folder / CONFIG_FILE
    if not config.exists():
        paths.write_text(config, request.cell.masked or request.cell.composed)
    modified = datetime.fromtimestamp(config.stat().st_mtime, UTC)
    run = Run(request, folder, sweep, modified.isoformat(timespec="milliseconds"), machine)
    experiment = run.experiment
    if not experiment.supported:
        run.outcome = Outcome(Status.UNSUPPORTED, None, experiment.unsupported_reason)
    for trial in run.read_new_trials():
        run.count_trial(trial)
        run.is_foreign = not is_own(folder)
    if node := environment.read_node(folder):
        run.machine = node if run.next is None else environment.merge_machines(node, machine)
    if (folder / records.RECORD_FILE).exists():
        try:
            ended = records.read_brief(folder).outcome
        except BadInput as problem:
            reason = f"{problem.problem} {problem.remedy}"
            run.outcome, run.is_closed = Outcome(Status.FAILED, None, reason), True
        else:
            run.is_closed = run.next is None and ended == run.outcome
    return run


def _can_be_explained(outcome: Outcome) -> bool:
    """Return whether what grew may have ended the trial: a host trial, of fewer steps, finds it."""
    has_grown = outcome.status in (Status.OUT_OF_MEMORY, Status.TIMED_OUT, Status.KILLED)
    return has_grown and outcome.phase in (Phase.STEPS, Phase.RELEASE)
