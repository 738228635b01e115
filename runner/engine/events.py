"""Events of a measurement, and the listeners that receive them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runner.cell import TrialSpec
from runner.errors import CodeChanged, Interrupted, RunnerError, ServerError, WriteError
from runner.records import Outcome, RepeatedCalls

if TYPE_CHECKING:
    from runner.engine.run import Run


Stop = Interrupted | ServerError | CodeChanged | WriteError


@dataclass(frozen=True)
class Result:
    """The outcome of each cell, in the order of the requests; all else is in the folder."""

    folder: Path
    outcomes: tuple[Outcome, ...]
    stopped: Stop | None = None
    """The error that ended the measurement before it was complete."""
    warnings: tuple[str, ...] = ()
    """Failures of listeners: a page, a table, the tracking store."""

    @property
    def exit_code(self) -> int:
        if self.stopped:
            return self.stopped.exit_code
        return 0 if all(outcome.completed for outcome in self.outcomes) else 1


@dataclass(frozen=True)
class MeasurementStarted:
    """The folder is there and locked; no cell is open yet."""

    folder: Path


@dataclass(frozen=True)
class CellsOpened:
    """A source has asked for these cells, for the first time or for more evidence."""

    runs: Sequence[Run]


@dataclass(frozen=True)
class ClusterOpened:
    """Dask's scheduler answers; its workers may still have to start."""

    address: str
    dashboard: str | None
    workers: int


@dataclass(frozen=True)
class TrialTaken:
    """A worker of a cluster begins with this trial; that it ended follows with the whole cell."""

    run: Run
    trial: TrialSpec


@dataclass(frozen=True)
class TrialStarted:
    """A trial is about to start. A timing trial starts when every listener has returned."""

    run: Run
    trial: TrialSpec


@dataclass(frozen=True)
class PhaseEntered:
    """A memory or host trial that runs alone has entered a phase."""

    name: str


@dataclass(frozen=True)
class StepsSought:
    """A program has taken no known step yet; these functions it calls again and again."""

    run: Run
    calls: RepeatedCalls


@dataclass(frozen=True)
class TrialEnded:
    """A trial's line is on the disk."""

    run: Run
    trial: TrialSpec
    seconds: float
    """Its share of the time that it and those beside it took."""


@dataclass(frozen=True)
class RecordWritten:
    """A cell's `record.json` is on the disk, written now or, of a resumed one, before."""

    run: Run
    is_new: bool


@dataclass(frozen=True)
class MeasurementEnded:
    """Nothing more is measured; every record that there will be is on the disk."""

    folder: Path
    result: Result


Event = (
    MeasurementStarted
    | CellsOpened
    | ClusterOpened
    | TrialTaken
    | TrialStarted
    | PhaseEntered
    | StepsSought
    | TrialEnded
    | RecordWritten
    | MeasurementEnded
)


class Listener(Protocol):
    """Receives events: progress, files, the tracking store."""

    def on(self, event: Event) -> None:
        """Handle an event. An exception becomes a warning, and the measurement goes on."""

    def close(self) -> None:
        """Let go of what it holds, whatever has happened; by default nothing."""
        return


@dataclass
class Notifier:
    """Passes each event to every listener, in order; what one of them raises becomes a warning."""

    listeners: Sequence[Listener]
    warnings: dict[str, None] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        stopped: Interrupted | None = None
        for listener in self.listeners:
            try:
                listener.on(event)
            except Interrupted as error:  # the others receive it all the same
                stopped = stopped or error
                if isinstance(event, MeasurementEnded):
                    result = replace(event.result, stopped=event.result.stopped or error)
                    event = replace(event, result=result)
            except Exception as error:
                self._warn(listener, error)
        if stopped:
            raise stopped

    def close(self) -> None:
        for listener in self.listeners:
            try:
                listener.close()
            except Exception as error:
                self._warn(listener, error)

    def _warn(self, listener: Listener, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if not isinstance(error, RunnerError):
            text = f"{type(listener).__name__}: {text}"
        self.warnings[text] = None
