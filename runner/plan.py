"""What is to be run: cells, each a few trials. Pure data from here on.

Core: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.config import Experiment, word

PLAN_FILE = "plan.json"
"""In a sweep's folder: the grid that it was started with."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A cell as it was composed: its place in the plan, and what made it."""

    number: int
    experiment: Experiment
    overrides: tuple[str, ...]
    composed: str
    """The configuration, as YAML."""
    resume: str | None = None
    search: Mapping[str, Any] = field(default_factory=dict)
    """What is searched for, as it was said: the whole sweep's, and not the cell's."""
    seeks_peak: bool = True
    """Whether memory trials are added until a graph's peak is known; growth doesn't need it."""

    @property
    def said(self) -> dict[str, str]:
        """What the overrides say, also entry by entry where that is a mapping: `{"batch_size":
        "32"}`."""
        words = dict(said.lstrip("+").partition("=")[::2] for said in self.overrides)
        entries = {
            name: word(value)
            for name, value in self.experiment.fields.items()
            if name.count(".") > 1
        }
        return entries | words


@dataclass(frozen=True)
class Search:
    """How a sweeper that searches goes about it."""

    most: int | None
    """How often it asks for a cell, where it says so."""
    at_once: int
    """How many it asks for at a time, before it wants to know what came of them."""
    whole: bool
    """Whether the plan's cells are all that it may ask for, and not a sample of them."""
    sweeper: str
    """The rest of its configuration, as YAML: it decides what is asked for."""


@dataclass(frozen=True)
class Plan:
    """Everything that the words asked for; one cell for a run, none where Hydra was only to tell
    something (`--cfg job`). Of a search the cells are those that it may ask for."""

    cells: tuple[Planned, ...]
    is_sweep: bool
    resume: str | None
    swept: tuple[str, ...]
    """The fields that the sweep varies, slowest first."""
    launcher: str | None = None
    """Where another than Hydra's own is to run the cells: which."""
    search: Search | None = None
    """Where the next cells depend on what the ones before have shown."""


TRACER_MB = 2500
"""What tracing holds at most, and five times that while it writes its events out."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one child is to do."""

    experiment: Experiment
    kind: str
    index: int
    note: str | None = None
    """What `StartAnew` said in an earlier process of this cell."""
    with_requests: bool = False
    """Of a memory trial: send the sequence of its allocations, too."""
    with_lines: bool = True
    """Of a memory trial: note which line of code makes what. Without, only to show that the figures
    are the same."""
    more_host_mb: int = 0
    """On top of the limit on host memory: to see whether it was the limit that ended a child."""

    @property
    def host_limit_mb(self) -> int | None:
        """The limit is the user's code's: what traces gets what its tracer may take on top, so that
        a timing trial alone tells whether the limit holds."""
        limit_mb = self.experiment.measure.host_limit_mb
        if limit_mb is None:
            return None
        return limit_mb + self.more_host_mb + (0 if self.is_timed else TRACER_MB)

    @property
    def is_timed(self) -> bool:
        """Whether the parent sleeps while it runs, and nothing else goes on beside it."""
        return self.kind == "timing"
