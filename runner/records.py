"""What is kept of a run, and how failure looks in it. JSON with a version.

Core: standard library only. `record.json` is the truth: the tracking store, tables, plots and
verdicts are views that can be made again from it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from runner import places, shape
from runner.allocations import Allocations
from runner.errors import BadInput

SCHEMA = 1
RECORD_FILE = "record.json"
TRIALS_FILE = "trials.jsonl"
LOG_FILE = "run.log"


class Status(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    UNSUPPORTED = "unsupported"
    INTERRUPTED = "interrupted"


class Phase(StrEnum):
    """What a trial goes through, in this order. `COLLECTION` is a moment more than a phase: what
    Python's collector frees after the last step, so that garbage isn't taken for growth."""

    BUILD = "build"
    FIRST_CALL = "first_call"
    STEPS = "steps"
    COLLECTION = "collection"
    RELEASE = "release"


@dataclass(frozen=True)
class Outcome:
    """How a trial, or a run, ended; where, and why, unless it completed."""

    status: Status
    phase: str | None = None
    reason: str | None = None

    @property
    def completed(self) -> bool:
        return self.status is Status.COMPLETED

    @property
    def words(self) -> str:
        """`out of memory in steps`."""
        return self.status.replace("_", " ") + (f" in {self.phase}" if self.phase else "")

    @property
    def brief(self) -> str:
        """The same with the first line of the reason."""
        reason = (self.reason or "").lstrip().splitlines()
        return f"{self.words}: {reason[0]}" if reason else self.words


COMPLETED = Outcome(Status.COMPLETED)

THREAD_STACKS, THREAD_START = "stacks of threads", "what Python takes to start a thread"
"""What threads hold by being there, as a host trial calls it; by itself it has no line."""


@dataclass(frozen=True)
class Trial:
    """One child process: what it was for, how it ended, and its raw samples.

    `phases` maps a phase to its figures (`seconds`, or bytes); `steps` maps a figure to its series,
    one value a steady step; `facts` holds what is known once (traces, allocator peak, devices).
    """

    kind: str
    index: int
    outcome: Outcome
    phases: dict[str, dict[str, float | None]] = field(default_factory=dict)
    steps: dict[str, list[float]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    allocations: Allocations | None = None

    @staticmethod
    def from_json(data: dict[str, Any]) -> Trial:
        values = {**data, "outcome": _outcome(data["outcome"])}
        return Trial(**{**values, "allocations": _allocations(data.get("allocations"))})


@dataclass(frozen=True)
class Record:
    """A whole run, as `record.json` holds it."""

    id: str
    cell: str
    started_at: str
    spec: dict[str, Any]
    outcome: Outcome
    metrics: dict[str, float | None]
    unavailable: dict[str, str]
    intervals: dict[str, tuple[float, float]]
    trials: tuple[Trial, ...]
    allocations: Allocations | None
    environment: dict[str, Any]
    fingerprint: str
    sweep: dict[str, Any] | None = None
    schema: int = SCHEMA

    @staticmethod
    def from_json(data: dict[str, Any]) -> Record:
        values = dict(data)
        values["outcome"] = _outcome(data["outcome"])
        values["allocations"] = _allocations(data["allocations"])
        values["trials"] = tuple(Trial.from_json(trial) for trial in data["trials"])
        values["intervals"] = {name: (low, high) for name, (low, high) in data["intervals"].items()}
        record = Record(**values)
        shape.check(Record, record, "")
        for name, kind in _SPEC.items():
            shape.check(kind, record.spec[name], f"spec.{name}")
        for name, group in (("kind", "device"), ("name", "measure")):
            shape.check(str, record.spec[group][name], f"spec.{group}.{name}")
        datetime.fromisoformat(record.started_at)
        if record.sweep is not None:
            for name, kind in _SWEEP.items():
                shape.check(kind, record.sweep[name], f"sweep.{name}")
        return record


_SPEC = {
    "scenario": str,
    "parameters": dict,
    "execution": str,
    "device": dict,
    "batch_size": int,
    "seed": int,
    "measure": dict,
}
_SWEEP = {"id": str, "cell": int, "swept": dict}
"""What every view takes for granted of these two, which are otherwise as they were composed."""


def to_json(value: Record | Trial) -> dict[str, Any]:
    return dataclasses.asdict(value)


def _outcome(data: dict[str, Any]) -> Outcome:
    return Outcome(Status(data["status"]), data["phase"], data["reason"])


def _allocations(data: dict[str, Any] | None) -> Allocations | None:
    return None if data is None else Allocations.from_json(data)


def write(record: Record, folder: Path) -> Path:
    """Write `record.json` whole or not at all: under another name, synced, then renamed."""
    path = folder / RECORD_FILE
    with places.whole(path) as scratch, scratch.open("w") as file:
        json.dump({"schema": record.schema, **to_json(record)}, file, allow_nan=False, indent=1)
        file.flush()
        os.fsync(file.fileno())
    return path


def read(path: Path) -> Record:
    """The record in a run's folder, or in the file itself."""
    file = path
    try:
        file = path / RECORD_FILE if path.is_dir() else path
        data = shape.from_text(places.text_of(file))
        if data["schema"] != SCHEMA:
            raise BadInput(
                f"{file}: written by another version (schema {data['schema']}, not {SCHEMA}).",
                "Read it with the version of the runner that wrote it.",
            )
        return Record.from_json(data)
    except OSError as error:
        raise BadInput(
            f"{file}: can't be read ({error.strerror}).", "Name a run's folder."
        ) from None
    except shape.UNREADABLE as error:
        raise BadInput(
            f"{file}: is not a valid record ({_said(error)}).",
            "Name a run's or a sweep's folder; one that was changed since can only be made anew.",
        ) from None


def _said(error: Exception) -> str:
    """A missing name, and what is nested without end, say nothing by themselves."""
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def read_brief(folder: Path) -> Record:
    """The record without trials and allocations, which are nearly all of its text and stand in one
    piece in the middle: ten times faster, and a sweep's worth of them fits into memory."""
    try:
        text = places.text_of(folder / RECORD_FILE)
    except OSError:
        return read(folder)  # which says what is wrong
    # As `write` indents it, and no JSON string holds a line's end: these are the record's own keys.
    begin, end = text.find('\n "trials": ['), text.rfind('\n "environment": {')
    if 0 < begin < end:
        with suppress(*shape.UNREADABLE):
            data = shape.from_text(text[:begin] + text[end:])
            if data["schema"] == SCHEMA:
                return Record.from_json({**data, "trials": (), "allocations": None})
    return replace(read(folder), trials=(), allocations=None)


def find(path: Path) -> list[Path]:
    """The folders with a record at or below `path`: one for a run, one a cell for a sweep. Copies
    that the embedded tracking store keeps as artifacts are none."""
    try:
        if path.name == RECORD_FILE and path.is_file():
            return [path.parent]
        path.stat()
    except (OSError, ValueError) as error:  # a name too long, a folder that is somebody else's
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"{path}: can't be read ({why}).", "Name a run's or a sweep's folder."
        ) from None
    found = (file.parent for file in path.rglob(RECORD_FILE))
    folders = sorted((each for each in found if each.name != "artifacts"), key=_natural)
    if not folders:
        raise BadInput(f"{path}: holds no {RECORD_FILE}.", "Name a run's or a sweep's folder.")
    return folders


def _natural(folder: Path) -> tuple[str, int, str]:
    """Cells in the order of their numbers: 2 before 10."""
    number = int(folder.name) if folder.name.isdigit() else -1
    return str(folder.parent), number, folder.name


def append_trial(trial: Trial, folder: Path) -> None:
    """Add one line to `trials.jsonl`, on the disk when this returns."""
    line = json.dumps(to_json(trial), allow_nan=False)
    with (folder / TRIALS_FILE).open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a kill cut the last line short: end it
                file.write(b"\n")
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_trials(folder: Path) -> Iterator[Trial]:
    """The trials that were finished; a line that a kill cut short, or that holds something else,
    is none: that trial is run again."""
    path = folder / TRIALS_FILE
    try:
        if not path.exists():
            return
        with places.open_text(path) as file:
            for line in file:
                with suppress(*shape.UNREADABLE):
                    trial = Trial.from_json(shape.from_text(line))
                    shape.check(Trial, trial, "trial")
                    yield trial
    except OSError as error:
        raise BadInput(
            f"{path}: can't be read ({error.strerror}).", "Move it away, or start anew."
        ) from None
