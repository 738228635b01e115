"""Requests for cells and evidence; the source that makes them, the executor that runs trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runner.cell import Cell
from runner.config import Experiment, Measure
from runner.machine import Machine

if TYPE_CHECKING:
    from runner.engine.events import Notifier
    from runner.engine.run import Run


@dataclass(frozen=True)
class Evidence:
    """The number of trials of each kind that is wanted of a cell."""

    memory: int
    timing: int
    host: int
    settles_peak: bool = True
    """Go on with memory trials until a graph's peak is known."""
    with_requests: bool = False
    """Memory trials also bring the sequence of their allocations."""

    @classmethod
    def from_measure(cls, measure: Measure, settles_peak: bool = True) -> Evidence:
        """Return all the evidence that a cell's own configuration asks for."""
        return cls(
            measure.memory_processes, measure.timing_processes, measure.host_processes, settles_peak
        )


@dataclass(frozen=True)
class Request:
    """A cell to be measured, and the folder that keeps what was measured."""

    cell: Cell
    evidence: Evidence
    place: str
    """The cell's folder, below the measurement's own; "" is that folder itself."""
    swept: Mapping[str, str | None] | None = None
    """The swept fields with the cell's values; None for a run that is no part of a sweep."""
    is_kept: bool = True
    """False for a probe: its trials are kept, but no record is written."""


class Source(Protocol):
    """Decides which cells to measure next."""

    @property
    def question(self) -> Mapping[str, Any] | None:
        """The content of `plan.json`, which `resume` compares; None: no resuming."""

    @property
    def seed(self) -> int:
        """The seed that the order of the trials is drawn from."""

    @property
    def must_have_device(self) -> bool:
        """True if a missing device refuses the whole before anything runs."""

    def ask(self) -> Sequence[Request]:
        """Return the cells to measure now; none, when nothing is pending, ends the measurement.

        It is called between rounds. To ask for a cell again, with more evidence, continues it.
        """

    def tell(self, run: Run) -> None:
        """Learn that the evidence that was asked for is there: `run.get_record()` has it."""


class Executor(Protocol):
    """Runs trials: on this machine, or on workers of Dask."""

    @property
    def machine(self) -> Machine: ...
    def check(self, experiments: Sequence[Experiment], must_have_device: bool) -> None: ...
    def prepare(self, folder: Path, seed: int) -> None: ...
    def run_round(self, runs: Sequence[Run], notify: Notifier) -> Iterator[Run]: ...
