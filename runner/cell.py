"""Define what is to be run: cells, each a few trials. Pure data from here on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from runner import paths, schema
from runner.config import Experiment, format_word
from runner.overrides import read_overrides

PLAN_FILE = "plan.json"
"""In a sweep's folder: the grid that it was started with."""


@dataclass(frozen=True)
class KeptSearch:
    """The objective of a sweep that searches, as its plan keeps it."""

    objective: dict[str, Any]


@dataclass(frozen=True)
class KeptPlan:
    """The part of a sweep's plan that views read."""

    words: tuple[str, ...] = ()
    """A search's, as they were typed."""
    overrides: tuple[tuple[str, ...], ...] = ()
    """One list a cell."""
    search: KeptSearch | None = None


def read_plan(folder: Path) -> KeptPlan | None:
    """Return the plan in a sweep's folder; None where there is none that can be read."""
    try:
        return schema.decode(KeptPlan, paths.read_text(folder / PLAN_FILE))
    except (OSError, schema.Unreadable):
        return None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it was composed: its place in the plan, and the words that made it."""

    number: int
    experiment: Experiment
    overrides: tuple[str, ...]
    """The words that made it, with secrets masked."""
    composed: str
    """The configuration, as YAML, secrets among it."""
    masked: str | None = None
    """The configuration without its secrets, where it has some."""

    @property
    def said(self) -> dict[str, str]:
        """Return the overrides by field, a mapping also entry by entry: `{"batch_size": "32"}`."""
        words = read_overrides(self.overrides)
        entries = {
            name: format_word(value)
            for name, value in self.experiment.fields.items()
            if name.count(".") > 1
        }
        return entries | words


@dataclass(frozen=True)
class Choices:
    """The values that a searched field may have."""

    values: tuple[str | int | float | bool, ...]


@dataclass(frozen=True)
class Interval:
    """The numbers that a searched field may be, both ends among them."""

    low: float
    high: float
    step: float | None = None
    is_log: bool = False


@dataclass(frozen=True)
class SearchSpec:
    """A search: its aim, the cells that it chooses among, and its sampler."""

    metrics: tuple[str, ...]
    limits: Mapping[str, float]
    space: Mapping[str, Choices | Interval]
    """The values that each swept field may have."""
    n_trials: int
    """Maximum number of cells to try."""
    n_jobs: int
    """It asks for so many at a time, before it wants to know what came of them."""
    sampler: Mapping[str, Any]
    """The `_target_` of the class that chooses the next cells, and its fields."""
    is_whole: bool
    """The plan's cells are all that it may ask for, and not a sample of them."""
    compose: Callable[[int, Mapping[str, Any]], Cell] = field(repr=False, compare=False)
    """Returns the cell with this number that has these values in the swept fields."""

    def to_json(self) -> dict[str, Any]:
        """Return everything that decides which cells are asked for, but for how many."""
        space = self.space.items()
        question: dict[str, Any] = msgspec.to_builtins(
            {
                "objective": {"objectives": self.metrics, "limits": self.limits},
                "space": {key: getattr(choices, "values", choices) for key, choices in space},
                "n_jobs": self.n_jobs,
                "sampler": self.sampler,
            }
        )
        return question


@dataclass(frozen=True)
class ClusterSpec:
    """The workers of Dask that are to run a sweep's cells."""

    launcher: str
    """As the word has it: dask, or slurm for short."""
    workers: int
    address: str | None = None
    """The scheduler's that is there; None: a cluster is started."""
    cluster: str = "local"
    """The kind of cluster that is started."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """That cluster's own fields, without those that the words leave to it."""


@dataclass(frozen=True)
class Plan:
    """Everything that the words asked for; one cell for a run, none where Hydra was only to tell
    something (`--cfg job`). Of a search the cells are those that it may ask for."""

    cells: tuple[Cell, ...]
    is_sweep: bool
    resume: str | None
    swept: tuple[str, ...]
    """The fields that the sweep varies, slowest first."""
    cluster: ClusterSpec | None = None
    """The workers, where cells are to run elsewhere."""
    search: SearchSpec | None = None
    """The search, where the next cells depend on what the ones before have shown."""
    notes: tuple[str, ...] = ()
    """Words that were given and are not used, a sentence each."""


TRACER_MB = 2500
"""Tracing holds so much at most, and five times that while it writes its events out."""


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """The task of one child."""

    experiment: Experiment
    kind: str
    index: int
    note: str | None = None
    """The note of the `StartAnew` of an earlier process of this cell."""
    with_requests: bool = False
    """A memory trial sends the sequence of its allocations, too."""
    with_lines: bool = True
    """A memory trial notes the line of each allocation; False only to show that figures agree."""
    more_host_mb: int = 0
    """Added to the limit on host memory, to see if it was the limit that ended a child."""

    @property
    def host_limit_mb(self) -> int | None:
        """Return the limit on host memory, for the user's code.

        A trial that traces gets on top what its tracer may take, so that a timing trial alone tells
        whether the limit holds.
        """
        limit_mb = self.experiment.measure.host_limit_mb
        if limit_mb is None:
            return None
        return limit_mb + self.more_host_mb + (0 if self.is_timed else TRACER_MB)

    @property
    def is_timed(self) -> bool:
        """Return True if the parent sleeps while it runs, and nothing else goes on beside it."""
        return self.kind == "timing"
