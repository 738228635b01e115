"""The record of a run, its outcome and its trials. JSON with a version.

Core: standard library only. `record.json` is the truth: the tracking store, tables, plots and
verdicts are views that can be made again from it.
"""

from __future__ import annotations

import math
import os
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from runner import paths, schema
from runner.allocations import Allocations
from runner.config import Spec
from runner.errors import BadInput
from runner.facts import PhaseFigures, StepSeries, TrialFacts
from runner.machine import Environment
from runner.schema import Number, Whole

SCHEMA = 1
RECORD_FILE = "record.json"
TRIALS_FILE = "trials.jsonl"
LOG_FILE = "run.log"
CRASHES = ("ended by SIGSEGV", "ended by SIGABRT")


class Status(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    UNSUPPORTED = "unsupported"
    INTERRUPTED = "interrupted"


class Phase(StrEnum):
    """The phases of a trial, in this order. `COLLECTION` is a moment more than a phase: what
    Python's collector frees after the last step, so that garbage isn't taken for growth."""

    BUILD = "build"
    FIRST_CALL = "first_call"
    STEPS = "steps"
    COLLECTION = "collection"
    RELEASE = "release"


@dataclass(frozen=True)
class Outcome:
    """The end of a trial, or of a run; with the phase and the reason, unless it completed."""

    status: Status
    phase: str | None = None
    reason: str | None = None

    @property
    def completed(self) -> bool:
        return self.status is Status.COMPLETED

    @property
    def is_crash(self) -> bool:
        """Return True if native code ended the process, as where TensorFlow runs out of memory."""
        return self.status is Status.KILLED and (self.reason or "").startswith(CRASHES)

    @property
    def words(self) -> str:
        """Return `out of memory in steps`."""
        return self.status.replace("_", " ") + (f" in {self.phase}" if self.phase else "")

    @property
    def brief(self) -> str:
        """Return the words with the first line of the reason."""
        reason = (self.reason or "").lstrip().splitlines()
        return f"{self.words}: {reason[0]}" if reason else self.words


COMPLETED = Outcome(Status.COMPLETED)

THREAD_STACKS, THREAD_START = "stacks of threads", "what Python takes to start a thread"
"""What threads hold by being there, as a host trial calls it; by itself it has no line."""
ONEDNN = "oneDNN's kernels and buffers"
"""What TensorFlow's library for the CPU keeps: code that it makes, and buffers."""


_NO_FIGURES, _NO_SERIES = PhaseFigures(), StepSeries()


@dataclass(frozen=True)
class Trial:
    """One child process: what it was for, how it ended, and its raw samples.

    `facts` holds what is known once: traces, allocator peak, devices.
    """

    kind: str
    index: Whole
    outcome: Outcome
    phases: dict[Phase, PhaseFigures] = field(default_factory=dict)
    steps: StepSeries = _NO_SERIES
    facts: TrialFacts = field(default_factory=TrialFacts)
    allocations: Allocations | None = None

    def figures(self, phase: Phase) -> PhaseFigures:
        """Return the figures of a phase; empty ones where the trial did not get there."""
        return self.phases.get(phase, _NO_FIGURES)


class TrialResult(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The last message of a child: its trial."""

    status: Status | None = None
    """None: it completed."""
    reason: str | None = None
    note: str | None = None
    """The note of a `StartAnew`; nothing else counts then."""
    phases: dict[Phase, PhaseFigures] = {}
    steps: StepSeries = _NO_SERIES
    facts: TrialFacts = msgspec.field(default_factory=TrialFacts)
    allocations: Allocations | None = None
    is_alone: bool = False
    """It has no child of its own that is still there."""

    def as_trial(self, kind: str, index: int, outcome: Outcome) -> Trial:
        return Trial(kind, index, outcome, self.phases, self.steps, self.facts, self.allocations)


class RepeatedCalls(msgspec.Struct, frozen=True):
    """The functions that a program without a known step was seen to call again and again."""

    seconds: int
    """Since the program began."""
    steps: tuple[str, ...]
    """As `scenario.step` names them, the likeliest first."""
    goes_on: bool
    """The trial begins anew with the first of them."""
    is_waiting: bool
    """The program's own thread waited all the time."""


class ChildMessage(msgspec.Struct, omit_defaults=True):
    """A line that a child sends: the phase that it enters, the calls that it saw, or its result."""

    phase: Phase | None = None
    calls: RepeatedCalls | None = None
    result: TrialResult | None = None


@dataclass(frozen=True)
class SweepPlace:
    """The sweep that a run is a cell of, and what was varied there."""

    id: str
    cell: Whole
    swept: dict[str, str | None]
    """The fields that vary, slowest first, with what was said of them here."""
    experiment: str | None = None
    """The named sweep that it is, of conf/experiment/."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A whole run, as `record.json` holds it."""

    schema: Whole = SCHEMA
    id: str
    cell: str
    started_at: str
    spec: Spec
    outcome: Outcome
    metrics: dict[str, Number | None]
    unavailable: dict[str, str]
    intervals: dict[str, tuple[Number, Number]]
    trials: tuple[Trial, ...]
    allocations: Allocations | None
    environment: Environment
    fingerprint: str
    sweep: SweepPlace | None = None

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.started_at)
        lows = {f"{name}_low": low for name, (low, _) in self.intervals.items()}
        for name, figure in {**self.metrics, **lows}.items():
            is_time = name.removesuffix("_low").endswith("_seconds")
            if is_time and figure is not None and figure < 0:
                raise ValueError(f"{name} is below 0")


_SKIPPED: dict[str, Any] = {"trials": (), "allocations": None}
_Brief = msgspec.defstruct(
    "Record",
    [
        (name, kind)
        for name, kind in typing.get_type_hints(Record, include_extras=True).items()
        if name not in _SKIPPED
    ],
)
"""A record without what is nearly all of its text: ten times faster to read."""


def write(record: Record, folder: Path) -> Path:
    """Write `record.json` whole or not at all: under another name, synced, then renamed."""
    figures = [*record.metrics.values(), *chain(*record.intervals.values())]
    if not all(math.isfinite(figure) for figure in figures if figure is not None):
        raise ValueError(f"{record.id}: a figure is not a number")
    path = folder / RECORD_FILE
    with paths.replace_file(path) as scratch, scratch.open("wb") as file:
        file.write(schema.encode_indented(record))
        file.flush()
        os.fsync(file.fileno())
    return path


def read(path: Path) -> Record:
    """Return the record in a run's folder, or in a file; raise `BadInput` where it is none."""
    record: Record = _read(path, Record)
    return replace(record, cell=record.spec.cell)  # an older one counted the trials, too


def read_brief(folder: Path) -> Record:
    """Return the record without trials and allocations: a sweep's worth fits into memory."""
    values = msgspec.structs.asdict(_read(folder, _Brief))
    try:
        return Record(**{**values, **_SKIPPED, "cell": values["spec"].cell})
    except ValueError as error:
        raise _refuse(folder, error) from None


@dataclass(frozen=True)
class UnreadableRecord:
    """A cell whose record can't be read, and why."""

    folder: Path
    problem: BadInput

    @property
    def sentence(self) -> str:
        return f"{self.problem.problem} {self.problem.remedy}"


Cells = tuple[list[tuple[Path, Record]], list[UnreadableRecord]]
"""Records that can be read, each with its folder, and those that can't."""


def read_each(folders: Iterable[Path], read: Callable[[Path], Record] = read) -> Cells:
    """Return the records that can be read, and those that can't; raise `BadInput` if none can.

    One damaged file hides no other cell of a sweep.
    """
    readable, unreadable = [], []
    for folder in folders:
        try:
            readable.append((folder, read(folder)))
        except BadInput as problem:
            unreadable.append(UnreadableRecord(folder, problem))
    if unreadable and not readable:
        raise unreadable[0].problem
    return readable, unreadable


class _Version(msgspec.Struct):
    schema: Whole


def _read(path: Path, kind: Any) -> Any:
    file = path
    try:
        file = path / RECORD_FILE if path.is_dir() else path
        text = paths.read_text(file)
    except OSError as error:
        raise BadInput(
            f"{file}: can't be read ({error.strerror}).", "Name a run's folder."
        ) from None
    try:
        content = schema.decode(kind, text)
        _check_version(content.schema, file)
        return content
    except schema.Unreadable as error:
        with suppress(schema.Unreadable):  # a newer one may well be unreadable
            _check_version(schema.decode(_Version, text).schema, file)
        raise _refuse(file, error) from None


def _refuse(file: Path, error: Exception) -> BadInput:
    return BadInput(
        f"{file}: is not a valid record ({error}).",
        "Name a run's or a sweep's folder. A sweep's cell is measured anew if this file is "
        "deleted and the sweep resumed.",
    )


def _check_version(version: int, file: Path) -> None:
    if version != SCHEMA:
        raise BadInput(
            f"{file}: written by another version (schema {version}, not {SCHEMA}).",
            "Read it with the version of the runner that wrote it; or delete it and resume the "
            "sweep, and the cell is measured anew.",
        )


def find(path: Path) -> list[Path]:
    """Return the folders with a record at or below `path`: one for a run, one a cell for a sweep;
    raise `BadInput` where there is none.

    Copies that the embedded tracking store keeps as artifacts don't count.
    """
    try:
        if path.name == RECORD_FILE and path.is_file():
            return [path.parent]
        path.stat()
    except (OSError, ValueError) as error:  # a name too long, a folder that is somebody else's
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"{path}: can't be read ({why}).", "Name a run's or a sweep's folder."
        ) from None
    holders = (file.parent for file in path.rglob(RECORD_FILE))
    folders = sorted(
        (folder for folder in holders if folder.name != "artifacts"), key=_sort_by_number
    )
    if not folders:
        raise BadInput(f"{path}: holds no {RECORD_FILE}.", "Name a run's or a sweep's folder.")
    return folders


def _sort_by_number(folder: Path) -> tuple[str, int, str]:
    """Return a key by which cells stand in the order of their numbers: 2 before 10."""
    number = int(folder.name) if folder.name.isdecimal() else -1
    return str(folder.parent), number, folder.name


@dataclass(frozen=True)
class _TrialLine(Trial):
    """A line of `trials.jsonl`."""

    cell: str | None = None
    """The cell that the trial belongs to; older files don't say."""


def _read_fields(trial: Trial) -> dict[str, Any]:
    return {field.name: getattr(trial, field.name) for field in fields(Trial)}


def append_trial(trial: Trial, folder: Path, cell: str) -> None:
    """Add one line to `trials.jsonl`, on the disk when this returns."""
    line = schema.encode(_TrialLine(**_read_fields(trial), cell=cell))
    with (folder / TRIALS_FILE).open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a kill cut the last line short: end it
                file.write(b"\n")
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_trials(folder: Path, cell: str | None = None) -> Iterator[Trial]:
    """Yield the trials that were finished; raise `BadInput` at one of another cell than `cell`.

    A line that a kill cut short, or that holds something else, is none: that trial is run again.
    """
    path = folder / TRIALS_FILE
    try:
        if not path.exists():
            return
        with paths.open_text(path) as file:
            for number, line in enumerate(file, 1):
                with suppress(schema.Unreadable):
                    trial = schema.decode(_TrialLine, line)
                    if cell and trial.cell and trial.cell != cell:
                        raise BadInput(
                            f"{path}: line {number} is a trial of another cell ({trial.cell}, not "
                            f"{cell}).",
                            "Put the file back where it belongs; or delete it and resume: the "
                            "cell is measured anew.",
                        )
                    yield Trial(**_read_fields(trial))
    except OSError as error:
        raise BadInput(
            f"{path}: can't be read ({error.strerror}).", "Move it away, or start anew."
        ) from None
