"""Define what a memory trial saw of the allocator: made by the replay, kept in the record, read by
every view by its fields.

What an older version did not know yet is empty or `None`. Core: standard library and msgspec.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from runner.schema import Real, Whole

PARTS = ("held", "kept", "gradient", "passing")
"""What a tensor can be in the step of the peak: the fields of a `Split`."""
GRADIENT = "(gradient)"
"""The last part of a scope: ops of the backward pass of what comes before."""


@dataclass(frozen=True)
class Split:
    """Bytes at the peak by when they came and go; the four sum to all.

    "The step" is the one that the peak is in, or the phase if it isn't in a step.
    """

    held_bytes: Whole
    """There before the step: weights, inputs, state."""
    kept_bytes: Whole
    """Made in the step and still there when it ends: its leak, or the next step's input."""
    gradient_bytes: Whole | None
    """Made in the step before its backward pass begins, freed after that: kept for the gradient.
    `None` where it is not known whether there is a backward pass."""
    passing_bytes: Whole
    """Made and freed in the step, the above left out."""


@dataclass(frozen=True)
class Scope:
    """The layer or name scope of an op, `/` between its parts: `""` where TensorFlow does not
    tell. Ends in `GRADIENT` for the ops of its backward pass."""

    scope: str
    count: Whole
    bytes: Whole


@dataclass(frozen=True)
class Group:
    """Allocations of one op, shape and dtype that were live at the peak."""

    op: str
    shape: tuple[Whole, ...] | None
    dtype: str
    count: Whole
    bytes: Whole
    share: Real
    split: Split | None = None
    scopes: tuple[Scope, ...] = ()
    """Where they came from, largest first; they sum to the group."""


@dataclass(frozen=True)
class Curve:
    """Live bytes over time: a step function, exact at each point that is kept."""

    seconds: tuple[Real, ...] = ()
    bytes: tuple[Whole, ...] = ()

    def __post_init__(self) -> None:
        if len(self.seconds) != len(self.bytes):
            raise ValueError("a curve has not as many times as sizes")

    @property
    def points(self) -> list[tuple[float, int]]:
        return list(zip(self.seconds, self.bytes, strict=True))


class Frame(NamedTuple):
    """A line on the Python stack. `file` is as Python names it, relative to the folder where the
    user stands if below it; `code` is the source text, empty where the file could not be read."""

    file: str
    line: Whole
    function: str
    code: str


@dataclass(frozen=True)
class LinePart:
    """Live bytes at the peak that one line made, of one kind and scope, called from one stack."""

    op: str
    shape: tuple[Whole, ...] | None
    dtype: str
    scope: str
    stack: tuple[Whole, ...]
    """Places in `Allocations.frames`, outermost first: the line itself is the last."""
    count: Whole
    bytes: Whole
    split: Split | None = None

    @property
    def is_gradient(self) -> bool:
        """Return True if the op belongs to a backward pass."""
        return self.scope.split("/")[-1] == GRADIENT


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's code and what was live at the peak of what it made. Of a graph's node it
    is the line that made the node, of a backward pass's node the line that it differentiates."""

    file: str | None
    line: Whole | None
    code: str | None
    count: Whole
    bytes: Whole
    share: Real
    split: Split
    parts: tuple[LinePart, ...]
    """Largest first; they sum to the line."""
    why: str | None = None
    """The reason why the line is not known."""
    is_library: bool = False
    """No line of the user's was on the stack: this is the nearest library's."""


@dataclass(frozen=True)
class TensorKind:
    """Everything that the tensors of one band have in common; `stack` as in `LinePart`."""

    op: str
    shape: tuple[Whole, ...] | None
    dtype: str
    scope: str
    stack: tuple[Whole, ...]
    block_bytes: Whole = 0
    """The size of the block that XLA allocates whole, for a buffer in one. The buffer is in it when
    the block is at its fullest; the band shows the life of the block."""


class TensorBand(NamedTuple):
    """One tensor in the step of the peak or, where they can't be told apart, several."""

    kind: Whole
    """A place in `Lives.kinds`."""
    part: str
    """`held`, `kept`, `gradient` or `passing`, as in `Split`."""
    born_seconds: Real | None
    """`None`: held from before."""
    died_seconds: Real | None
    """`None`: outlasts the step."""
    tensors: Whole
    bytes: Whole
    """The sum of all of them."""


@dataclass(frozen=True)
class Lives:
    """The life of every tensor in the step (or phase) of the peak: at any moment the bytes of the
    bands that are alive and of `rest` sum to the live bytes, exactly. A band is alive from its
    birth on and no more at its death. Times are those of the curves."""

    begin_seconds: Real
    end_seconds: Real
    peak_seconds: Real
    kinds: tuple[TensorKind, ...]
    bands: tuple[TensorBand, ...]
    """Those that were there longest with the most bytes; in order of birth."""
    rest: Curve
    """The bytes of all tensors that are in no band: nothing, as long as there are few."""
    rest_count: Whole


@dataclass(frozen=True)
class LeakedGroup:
    """Allocations of a step that are live at the end, after Python's collector has run, in a trial
    whose live bytes grew from step to step.

    (Where they didn't, what lasts took the place of something else, as a variable's new value
    does.)
    """

    op: str
    scope: str
    shape: tuple[Whole, ...] | None
    dtype: str
    count: Whole
    bytes: Whole
    count_per_step: Real
    bytes_per_step: Real
    stack: tuple[Whole, ...] = ()
    """Places in `Allocations.frames`, as in `LinePart`."""


class Span(NamedTuple):
    """When a phase or a steady step was: what the record keeps of a stretch."""

    phase: str
    step: Whole
    begin_seconds: Real
    end_seconds: Real


@dataclass(frozen=True)
class TraceChecks:
    """Counts that tell how far the events can be believed; all but the first four are 0 in a clean
    trace."""

    events: Whole
    windows: Whole
    live_before_bytes: Whole
    """By the allocator's own count, when the trace began."""
    unmatched_frees: Whole
    reused_addresses: Whole
    disagreements: Whole
    """Events at which the allocator's own running total departs from the replay's."""

    @property
    def is_clean(self) -> bool:
        """Return True if there are events, and they add up to the allocator's own total."""
        gaps = self.unmatched_frees + self.reused_addresses + self.disagreements
        return self.events > 0 and gaps == 0


@dataclass(frozen=True)
class Allocations:
    """All that a trial's allocation events say; the record's `allocations`."""

    total_bytes: Whole
    phase: str | None
    step: Whole | None
    groups: tuple[Group, ...]
    lines: tuple[SourceLine, ...] = ()
    frames: tuple[Frame, ...] = ()
    lives: Lives | None = None
    split: Split | None = None
    gradient_why: str | None = None
    """The reason why the split's `gradient_bytes` is null."""
    leaks: tuple[LeakedGroup, ...] | None = None
    leak_steps: Whole = 0
    marks: tuple[Span, ...] = ()
    curve: Curve = Curve()
    peak_curve: Curve = Curve()
    """Through the step, or phase, of the peak."""
    allocator: str = ""
    """The pattern that the allocator's name had to match."""
    allocators: dict[str, Whole] = field(default_factory=dict)
    """Every allocator that had events, and how many."""
    allocator_peak_bytes: Whole | None = None
    """The peak that the allocator says itself."""
    checks: TraceChecks | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` unless the parts fit together: a file may have been changed by hand,
        and views rely on it."""
        if self.total_bytes <= 0 and any(group.bytes for group in self.groups):
            raise ValueError("total_bytes is not the sum of the groups")
        stacks = [part.stack for line in self.lines for part in line.parts]
        stacks += [group.stack for group in self.leaks or ()]
        stacks += [kind.stack for kind in self.lives.kinds] if self.lives else []
        if any(not 0 <= place < len(self.frames) for stack in stacks for place in stack):
            raise ValueError("a stack names a frame that is not there")
        for band in self.lives.bands if self.lives else ():
            is_known = self.lives is not None and 0 <= band.kind < len(self.lives.kinds)
            if not is_known or band.part not in PARTS:
                raise ValueError("a band names a kind or a part that is not there")
