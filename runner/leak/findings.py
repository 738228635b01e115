"""Define the findings of a leak hunt. Core: standard library and msgspec."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any

import msgspec

from runner.analysis.filling import Filling
from runner.facts import ChildProcesses


class LeakVerdict(StrEnum):
    GROWS = "grows"
    FLAT = "flat"
    FILLS = "fills"
    """It rises and stops."""
    UNCLEAR = "unclear"
    UNSUPPORTED = "unsupported"
    """The cell of a sweep can't be run: there is no verdict on growth."""


@dataclass(frozen=True)
class Holder:
    """A place that takes memory and keeps it."""

    kind: str
    bytes_per_step: float
    count_per_step: float | None = None
    file: str | None = None
    line: int | None = None
    code: str | None = None
    what: str = ""
    chain: tuple[str, ...] = ()
    """From a variable that the user knows down to what grows."""
    is_held: bool = False
    """What the chain ends at was emptied, and gave it back; else the chain only reaches it."""
    events: int | None = None
    """In how many of the traced steps it rose, where these were few."""
    every_steps: float = 1.0
    """The steps from one of these to the next."""

    @property
    def how_often(self) -> str:
        """Return in which share of the steps it rises, where that is rare; else nothing."""
        return f"1 in {self.every_steps:.0f} steps" if self.events else ""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "no line of Python"


@dataclass(frozen=True)
class StoppedHolder:
    """A place that took memory in the first steps that were traced, and no more in the last."""

    kind: str
    where: str
    what: str
    bytes: float


class Reason(Enum):
    """Why a verdict is what it is: decides the sentence."""

    HELD = auto()
    BUFFER_IS_FULL = auto()
    BUFFER_FILLS = auto()
    """Of tf.data's, with an end that is known and not reached."""
    LEVELS_OFF = auto()
    """It rose while it was traced, and not over all the steps that were timed."""
    KEPT_BY_MALLOC = auto()
    GARBAGE = auto()
    NOTHING_GROWS = auto()
    NOT_MEASURED = auto()
    PAST_THE_TRACER = auto()
    """It is in use and was not found."""
    NOT_FOUND = auto()
    EXPLANATION_FAILED = auto()
    """The host trial ended badly, or was not run: what it would have found is not known."""
    TOO_RARE = auto()
    """Something stayed, in so few of the traced steps that they don't tell how often it does."""
    TOO_FEW_STEPS = auto()
    """Something rose in the few steps that were traced, and nothing else says that it goes on."""
    CHILDREN_GROW = auto()
    """The process itself does not; its child processes were looked at twice, and took more."""


@dataclass(frozen=True)
class LeakEvidence:
    """Everything that decides a verdict."""

    host: float | None
    """Growth of resident memory, in bytes a step; None: not known."""
    tensor: float | None
    explained: float | None
    """The bytes a step of all holders; None without a host trial."""
    holders: tuple[Holder, ...] = ()
    """The largest first; malloc may be one of them."""
    little: tuple[Holder, ...] = ()
    """Those that hold too little to be called a leak."""
    unsure: tuple[Holder, ...] = ()
    """The largest first: those that rose in too few steps to say that they go on, where nothing
    else tells growth."""
    stopped: tuple[StoppedHolder, ...] = ()
    rare: tuple[Holder, ...] = ()
    """The largest first: those that rose and stayed in a few steps, which is not the growth of the
    process, as far as it is known."""
    is_level_when_timed: bool = False
    """The timing trials, of more steps than can be traced, had to see what still rose then."""
    has_more_in_use: bool = False
    """Malloc has more in use late than early, without the garbage that was found at the end."""
    in_use_per_step: float = 0.0
    """By how much that rises."""
    failed_explanation: str | None = None
    """How the host trial ended, if it ended badly or was not run."""
    traced_steps: int = 0
    children: tuple[ChildProcesses, ChildProcesses] | None = None
    """Early and late, where the timing trials had any."""
    children_steps: int = 0
    """The steps between the two."""
    filling: Filling | None = None
    """The buffers of tf.data that make the tensors, where these are all that rises of them."""
    garbage_bytes: float = 0.0
    """Given back by Python's collector after the last step, where it had looked like growth."""

    @property
    def are_children_growing(self) -> bool:
        """Return True if there are more of them, or they take more than what comes and goes."""
        if self.children is None:
            return False
        early, late = self.children
        return late.count > early.count or late.bytes - early.bytes > max(2**20, early.bytes / 20)

    @property
    def children_growth(self) -> float:
        """Return the bytes a step that child processes took more; 0 where they did not."""
        if self.children is None or not self.are_children_growing:
            return 0.0
        early, late = self.children
        return max(0.0, late.bytes - early.bytes) / max(1, self.children_steps)

    @property
    def holding(self) -> list[Holder]:
        """Return the holders without malloc."""
        return [holder for holder in self.holders if holder.kind != "malloc"]

    @property
    def kept_by_malloc(self) -> float:
        return sum(holder.bytes_per_step for holder in self.holders if holder.kind == "malloc")


class RemedyOutcome(StrEnum):
    STOPS = "stops it"
    HELPS = "helps"
    USELESS = "does not help"
    WORSE = "makes it worse"
    NOT_SHOWN = "not shown"
    NOT_TRIED = "could not be tried"


@dataclass(frozen=True)
class Remedy:
    """A change that was tried or, with no figures, that the user is to write."""

    change: str
    command: str | None = None
    growth_bytes_per_step: float | None = None
    outcome: RemedyOutcome | None = None
    why: str = ""
    """What else a person is told of the outcome."""

    @property
    def verdict(self) -> str | None:
        """Return the outcome as a person reads it."""
        return ": ".join(filter(None, (self.outcome, self.why))) or None

    def to_json(self) -> dict[str, Any]:
        names = ("change", "command", "growth_bytes_per_step", "verdict")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Leak:
    """The answer for one cell, as `leak --json` prints it."""

    verdict: LeakVerdict
    sentence: str
    tensor_growth_bytes_per_step: float | None = None
    host_growth_bytes_per_step: float | None = None
    interval: tuple[float, float] | None = None
    host_bound_bytes_per_step: float | None = None
    """Upper bound, for the terminal, when growth is reported as 0."""
    explained_bytes_per_step: float | None = None
    holders: tuple[Holder, ...] = ()
    """The largest first."""
    remedies: tuple[Remedy, ...] = ()
    seen: str = ""
    """For the terminal: the steps that it rests on."""
    notes: tuple[str, ...] = ()
    """When memory will be full, what a pipeline holds, which trial ended."""

    def to_json(self) -> dict[str, Any]:
        """Return every field that `leak --json` prints."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        del fields["seen"], fields["host_bound_bytes_per_step"]
        fields["remedies"] = [remedy.to_json() for remedy in self.remedies]
        for holder, how_often in zip(
            fields["holders"], [holder.how_often for holder in self.holders], strict=True
        ):
            del holder["events"], holder["every_steps"]
            holder["what"] = "; ".join(filter(None, (holder["what"], how_often)))
            if not holder.pop("is_held") and holder["chain"]:
                holder["what"] += "; the chain reaches it, and was not shown to hold it"
        return fields

    @property
    def was_measured(self) -> bool:
        """Return True if any trial told growth: else nothing tells whether a remedy helps."""
        host, tensor = self.host_growth_bytes_per_step, self.tensor_growth_bytes_per_step
        return any(rate is not None for rate in (host, tensor, self.explained_bytes_per_step))

    @property
    def main_holders(self) -> list[Holder]:
        """Return the holders of a twentieth of what was found, or more."""
        least = (self.explained_bytes_per_step or 0) / 20
        held = [holder for holder in self.holders if holder.kind != "malloc"]
        return [holder for holder in held if holder.bytes_per_step >= least]

    @property
    def unexplained_bytes_per_step(self) -> float | None:
        if self.host_growth_bytes_per_step is None or self.explained_bytes_per_step is None:
            return None
        return self.host_growth_bytes_per_step - self.explained_bytes_per_step
