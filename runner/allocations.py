"""What a memory trial saw of the allocator, as values: made by the replay, kept in the record, read
by every view by its fields.

Core: standard library only. `from_json` reads what `to_json` wrote, and what older versions wrote:
what they did not know yet is empty or `None`.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass, field, fields
from typing import Any

GRADIENT = "(gradient)"
"""The last part of a scope: ops of the backward pass of what comes before."""


@dataclass(frozen=True)
class Split:
    """Bytes at the peak by when they came and go; the four sum to all.

    "The step" is the one that the peak is in, or the phase if it isn't in a step.
    """

    held_bytes: int
    """There before the step: weights, inputs, state."""
    kept_bytes: int
    """Made in the step and still there when it ends: its leak, or the next step's input."""
    gradient_bytes: int | None
    """Made in the step before its backward pass begins, freed after that: kept for the gradient.
    `None` where it is not known whether there is a backward pass."""
    passing_bytes: int
    """Made and freed in the step, the above left out."""


@dataclass(frozen=True)
class Scope:
    """The layer or name scope of an op, `/` between its parts: `""` where TensorFlow does not
    tell. Ends in `GRADIENT` for the ops of its backward pass."""

    scope: str
    count: int
    bytes: int


@dataclass(frozen=True)
class Group:
    """Allocations of one op, shape and dtype that were live at the peak."""

    op: str
    shape: tuple[int, ...] | None
    dtype: str
    count: int
    bytes: int
    share: float
    split: Split | None = None
    scopes: tuple[Scope, ...] = ()
    """Where they came from, largest first; they sum to the group."""


@dataclass(frozen=True)
class Curve:
    """Live bytes over time: a step function, exact at each point that is kept."""

    seconds: tuple[float, ...] = ()
    bytes: tuple[int, ...] = ()

    @property
    def points(self) -> list[tuple[float, int]]:
        return list(zip(self.seconds, self.bytes, strict=True))


class Frame(typing.NamedTuple):
    """A line on the Python stack. `file` is as Python names it, relative to the folder where the
    user stands if below it; `code` is the source text, empty where the file could not be read."""

    file: str
    line: int
    function: str
    code: str


@dataclass(frozen=True)
class Part:
    """What one line made that was live at the peak, of one op, shape, dtype and scope, called from
    one stack."""

    op: str
    shape: tuple[int, ...] | None
    dtype: str
    scope: str
    stack: tuple[int, ...]
    """Places in `Allocations.frames`, outermost first: the line itself is the last."""
    count: int
    bytes: int
    split: Split | None = None

    @property
    def is_gradient(self) -> bool:
        return self.scope.split("/")[-1] == GRADIENT


@dataclass(frozen=True)
class Line:
    """A line of the user's code and what was live at the peak of what it made. Of a graph's node it
    is the line that made the node, of a backward pass's node the line that it differentiates."""

    file: str | None
    line: int | None
    code: str | None
    count: int
    bytes: int
    share: float
    split: Split
    parts: tuple[Part, ...]
    """Largest first; they sum to the line."""
    why: str | None = None
    """Where the line is not known, why not."""
    is_library: bool = False
    """No line of the user's was on the stack: this is the nearest library's."""


@dataclass(frozen=True)
class Kind:
    """What all tensors of one band have in common; `stack` as in `Part`."""

    op: str
    shape: tuple[int, ...] | None
    dtype: str
    scope: str
    stack: tuple[int, ...]
    block_bytes: int = 0
    """Of a buffer in a block that XLA allocates whole: the block's size. The buffer is in it when
    the block is at its fullest; the band shows the life of the block."""


class Band(typing.NamedTuple):
    """One tensor in the step of the peak or, where they can't be told apart, several."""

    kind: int
    """A place in `Lives.kinds`."""
    part: str
    """`held`, `kept`, `gradient` or `passing`, as in `Split`."""
    born_seconds: float | None
    """`None`: held from before."""
    died_seconds: float | None
    """`None`: outlasts the step."""
    tensors: int
    bytes: int
    """Of all of them together."""


@dataclass(frozen=True)
class Lives:
    """The life of every tensor in the step (or phase) of the peak: at any moment the bytes of the
    bands that are alive and of `rest` sum to the live bytes, exactly. A band is alive from its
    birth on and no more at its death. Times are those of the curves."""

    begin_seconds: float
    end_seconds: float
    peak_seconds: float
    kinds: tuple[Kind, ...]
    bands: tuple[Band, ...]
    """Those that were there longest with the most bytes; in order of birth."""
    rest: Curve
    """The bytes of all tensors that are in no band: nothing, as long as there are few."""
    rest_count: int


@dataclass(frozen=True)
class Leak:
    """Allocations of a step that are live at the end, after Python's collector has run, in a trial
    whose live bytes grew from step to step. (Where they didn't, what lasts took the place of
    something else, as a variable's new value does.)"""

    op: str
    scope: str
    shape: tuple[int, ...] | None
    dtype: str
    count: int
    bytes: int
    count_per_step: float
    bytes_per_step: float
    stack: tuple[int, ...] = ()
    """Places in `Allocations.frames`, as in `Part`."""


class Span(typing.NamedTuple):
    """When a phase or a steady step was: what the record keeps of a stretch."""

    phase: str
    step: int
    begin_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class Checks:
    """How far the events can be believed; all but the first four are 0 in a clean trace."""

    events: int
    trace_events: int
    windows: int
    live_before_bytes: int
    """By the allocator's own count, when the trace began."""
    unmatched_frees: int
    unmatched_free_bytes: int
    reused_addresses: int
    disagreements: int
    """Events at which the allocator's own running total departs from the replay's."""


@dataclass(frozen=True)
class Allocations:
    """All that a trial's allocation events say; the record's `allocations`."""

    total_bytes: int
    phase: str | None
    step: int | None
    groups: tuple[Group, ...]
    lines: tuple[Line, ...] = ()
    frames: tuple[Frame, ...] = ()
    lives: Lives | None = None
    split: Split | None = None
    gradient_why: str | None = None
    """Where the split's `gradient_bytes` is null, why."""
    leaks: tuple[Leak, ...] | None = None
    leak_steps: int = 0
    marks: tuple[Span, ...] = ()
    curve: Curve = Curve()
    peak_curve: Curve = Curve()
    """Through the step, or phase, of the peak."""
    allocator: str = ""
    """The pattern that the allocator's name had to match."""
    allocators: dict[str, int] = field(default_factory=dict)
    """Every allocator that had events, and how many."""
    allocated_peak_bytes: int | None = None
    """The peak of the allocator's own sizes, replayed."""
    allocator_peak_bytes: int | None = None
    """The peak that the allocator says itself."""
    checks: Checks | None = None

    @staticmethod
    def from_json(data: dict[str, Any]) -> Allocations:
        read: Allocations = _read(Allocations, data)
        for curve in (read.curve, read.peak_curve):
            if len(curve.seconds) != len(curve.bytes):
                raise ValueError("a curve has not as many times as sizes")
        return read

    def to_json(self) -> dict[str, Any]:
        return {each.name: _plain(getattr(self, each.name)) for each in fields(Allocations)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _read(kind: Any, data: Any) -> Any:
    """A value of a type from plain JSON. Keys that the type does not have are from another version
    and left out; a missing key takes the field's default, or is an error where it has none."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{key: _read(hints[key], data[key]) for key in hints if key in data})
    if origin in (typing.Union, types.UnionType):
        inner = next(each for each in arguments if each is not type(None))
        return data if data is None else _read(inner, data)
    if origin is tuple:
        return tuple(_read(arguments[0], each) for each in data)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return kind(*data)
    return data
