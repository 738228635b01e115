"""The facts of a trial's process, apart from its allocations: made in the child, kept in the
record.

Core: standard library and msgspec. A field that nobody filled is None, and left out of the JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from runner.schema import Number, Real, Whole


class PhaseFigures(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One phase: of a timing trial seconds and host bytes, of a memory trial tensor bytes."""

    seconds: Real | None = None
    host_bytes: Number | None = None
    host_peak_bytes: Number | None = None
    tensor_begin_bytes: Number | None = None
    tensor_peak_bytes: Number | None = None
    tensor_live_bytes: Number | None = None
    allocated_bytes: Number | None = None
    allocations: Number | None = None


class StepSeries(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One value a step; of a timing trial the warm-up's come first."""

    seconds: tuple[Real, ...] = ()
    """Of the steps that `measure` asks for; those that follow to tell growth have none."""
    whole_seconds: Real | None = None
    """From the first to the last, with what a program does between two of them."""
    host_bytes: tuple[Number, ...] = ()
    host_stride: Whole | None = None
    """`host_bytes` has one value for so many steps in a row, the least of them; None: for each."""
    tensor_begin_bytes: tuple[Number, ...] = ()
    tensor_live_bytes: tuple[Number, ...] = ()
    tensor_collected_bytes: tuple[Number, ...] = ()
    tensor_peak_bytes: tuple[Number, ...] = ()
    """Above what was live when the step began."""
    allocated_bytes: tuple[Number, ...] = ()
    allocations: tuple[Number, ...] = ()

    def __len__(self) -> int:
        series = (column for column in msgspec.structs.astuple(self) if isinstance(column, tuple))
        return max(self.host_steps, *map(len, series))

    def get_stride(self, series: Sequence[float]) -> int:
        """Return how many steps each value of one of the series stands for."""
        return (self.host_stride or 1) if series is self.host_bytes else 1

    @property
    def host_steps(self) -> int:
        """Return the number of steps that `host_bytes` covers."""
        return len(self.host_bytes) * (self.host_stride or 1)

    @property
    def host_seconds(self) -> float:
        """Return the time of those steps; of an older record as if all took as long as those that
        were timed."""
        if self.whole_seconds is not None:
            return self.whole_seconds
        return self.host_steps * sum(self.seconds) / max(1, len(self.seconds))


@dataclass(frozen=True)
class MallocBooks:
    """Malloc's figures of itself, at some steps."""

    steps: tuple[Whole, ...]
    in_use_bytes: tuple[Whole, ...]
    free_bytes: tuple[Whole, ...]
    collected_bytes: Whole = 0
    """Freed by Python's collector after the last step, even if malloc has kept it."""

    def __post_init__(self) -> None:
        if not len(self.steps) == len(self.in_use_bytes) == len(self.free_bytes):
            raise ValueError("malloc's books have columns of different lengths")


@dataclass(frozen=True)
class CleanReadings:
    """What was resident before some of the later steps, when Python's collector had just run and
    malloc had given back what it had free."""

    steps: tuple[Whole, ...]
    bytes: tuple[Number, ...]
    collected_bytes: tuple[Number, ...]
    """Freed by the collector each time, and no longer resident."""

    def __post_init__(self) -> None:
        if not len(self.steps) == len(self.bytes) == len(self.collected_bytes):
            raise ValueError("clean readings have columns of different lengths")


@dataclass(frozen=True)
class FailedRequest:
    """The request that failed when memory ran out; None where the message does not tell."""

    op: str | None
    """An eager op's type; in a graph, the node's name."""
    shape: tuple[Whole, ...] | None
    dtype: str | None
    bytes: Whole | None
    device: str | None
    live_bytes: Whole | None = None
    """Live bytes of tensors at that moment."""


@dataclass(frozen=True)
class RequestSequence:
    """The requests of a trial to its allocator, in order. `bytes` and `labels` have an entry an
    allocation, by birth; a label is a place in `names`. `order` has the allocations' numbers: each
    where it is made, and a second time where it is freed."""

    bytes: tuple[Whole, ...]
    labels: tuple[Whole, ...]
    names: tuple[str, ...]
    order: tuple[Whole, ...]


@dataclass(frozen=True)
class ChildProcesses:
    """How many there are below a trial's own, and their anonymous resident memory."""

    count: Whole
    bytes: Whole


# What a host trial saw.


@dataclass(frozen=True)
class Survivor:
    """Memory that one place took and that was live at any of the marks between steps."""

    kind: str
    file: str | None
    line: Whole | None
    code: str | None
    what: str
    bytes: tuple[Whole, ...]
    """Live at each mark, above the first."""
    count: tuple[Whole, ...]
    """The same of blocks."""

    def __post_init__(self) -> None:
        if not len(self.bytes) == len(self.count) > 1:
            raise ValueError("what survived is not known at two marks and more")


@dataclass(frozen=True)
class PipelineBuffer:
    """A stage of a data pipeline: how much it held at each look."""

    stage: str
    elements: tuple[Whole, ...]
    bytes: tuple[Whole, ...]
    buffer: Whole | None
    """The number of elements that it may hold."""
    chosen_by_autotune: bool
    capacity: Whole | None = None
    """The number of elements at which it is full; None where that is not known, or has no end."""
    element_bytes: Whole | None = None
    """None where the shapes are not known before an element is made."""

    def __post_init__(self) -> None:
        if not len(self.elements) == len(self.bytes) > 1:
            raise ValueError("a pipeline was not looked at twice")

    @property
    def is_filling(self) -> bool:
        """Return True if it holds more than stages that run ahead of each other differ by."""
        before, after = self.elements[0], self.elements[-1]
        return after > max(1.1 * before, before + 3)

    @property
    def has_known_end(self) -> bool:
        """Return True if it rises, to a size that is known."""
        return self.elements[0] < self.elements[-1] and self.capacity is not None


class CollectorState(StrEnum):
    """A setting under which Python's collector does not free garbage by itself."""

    DISABLED = "gc.disable()"
    NO_THRESHOLD = "gc.set_threshold(0)"
    SAVES_ALL = "gc.set_debug(gc.DEBUG_SAVEALL)"


@dataclass(frozen=True)
class SharedMapping:
    """Memory that was mapped before the steps and is filled by them: shared, or a file's."""

    name: str
    """The file's path, or the kernel's name."""
    is_file: bool
    bytes: tuple[Number, ...] = ()
    """Above the first mark, at each."""

    @property
    def what(self) -> str:
        """Return what it is, to a person."""
        of = "written to and not yet on the disk" if self.is_file else "shared memory"
        return f"{self.name}, {of}"


class ResourceKind(StrEnum):
    FILE = "file"
    THREAD = "thread"


@dataclass(frozen=True)
class OpenResource:
    """Things of the kernel's that the process holds: how many there were at each mark."""

    kind: ResourceKind
    counts: tuple[Whole, ...]
    latest: str = ""
    """The one that was opened last: a path, `socket`, `pipe`."""
    limit: Whole | None = None
    """The number that the process may have."""


@dataclass(frozen=True)
class Container:
    """Something that is longer from step to step, or a type that multiplies, and who holds it."""

    grows_by: Real
    of: str
    lines: tuple[tuple[str, Whole], ...]
    """The user's lines that made its newest elements."""
    made_at: tuple[str, Whole] | None = None
    chain: tuple[str, ...] = ()
    """From what has a name down to it."""
    frees: tuple[tuple[str, Whole], ...] = ()
    """The lines whose memory went when it was emptied."""
    frees_native: Real = 0.0
    """Bytes a step of C++ that went with it."""
    also: tuple[str, ...] = ()
    """Other containers that had to be emptied with it, for they hold the same."""
    collector: CollectorState | None = None
    """It is no container, but garbage that is not collected for this reason."""


class GrowingFunction(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A `tf.function` that is traced, or made, again and again."""

    name: str
    file: str | None = None
    line: Whole | None = None
    traces_per_step: Real | None = None
    made_per_step: Real | None = None
    differs: str | None = None
    """The argument that two traces don't have in common."""


MOST_TRACED_STEPS = 100
"""Of a host trial: what recurs shows in so many, but for what is too little to call a leak."""
MOST_RARE_STEPS = 4 * MOST_TRACED_STEPS
"""Of one in which something rose and stayed once or twice: it may recur, in every hundredth."""


@dataclass(frozen=True)
class HostFindings:
    """Memory that stays on the host from step to step, by place, and its holders."""

    steps: Whole
    traced_seconds_per_step: Real
    survivors: tuple[Survivor, ...]
    pipelines: tuple[PipelineBuffer, ...] = ()
    containers: tuple[Container, ...] = ()
    functions: tuple[GrowingFunction, ...] = ()
    mappings: tuple[SharedMapping, ...] = ()
    resources: tuple[OpenResource, ...] = ()
    collector: CollectorState | None = None
    """None: Python's collector runs as it does by default."""

    def __post_init__(self) -> None:
        if len({len(survivor.bytes) for survivor in self.survivors}) > 1:
            raise ValueError("what survived is not known at the same marks")


class ProgramFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Observations of a program that calls its own steps."""

    steps: Whole
    """The number that it took, its first call among them."""
    step_is: str | None = None
    """The call that was taken for a step, in words."""
    why_unknown: str | None = None
    """Why nothing is known of steady steps, where nothing is."""
    set_late: tuple[str, ...] = ()
    """Variables that it set after TensorFlow had read them."""
    left_out: tuple[str, ...] = ()
    """Of a notebook: what only a notebook can run."""
    not_reached: tuple[str, ...] = ()
    """The statements after the place where it was stopped, each with its line."""
    step: str | None = None
    """The step as `scenario.step` names it, where it was named or sought."""
    begin_unseen: bool = False
    """The first step was seen only as it ended: it is a part of the build."""


class TrialFacts(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Facts of a trial, filled as it goes: one that fails has what was known by then."""

    seconds: Real | None = None
    """From the fork of its process to its result, or its end."""
    device: str | None = None
    devices: tuple[str, ...] | None = None
    """All that TensorFlow sees."""
    card: str | None = None
    compute_capability: str | None = None
    device_process_bytes: Whole | None = None
    """The card's memory that the process has taken."""
    device_process_reason: str | None = None
    fallback_ops: dict[str, Whole] | None = None
    """Ops that TensorFlow ran on the CPU for want of a kernel, and at how many places."""
    batched: bool | None = None
    """The scenario asked how many examples there are."""
    warmup_steps: Whole | None = None
    graph_traces: Whole | None = None
    graph_nodes: Whole | None = None
    graph_nodes_per_step: Number | None = None
    tensor_peak_bytes: Whole | None = None
    tensor_retained_bytes: Whole | None = None
    allocator_peak_bytes: Whole | None = None
    process_peak_bytes: Whole | None = None
    """The process's own peak in a memory trial, with all that tracing takes."""
    course: str | None = None
    """A hash of live bytes after each event."""
    graph_ops: bool | None = None
    """TensorFlow's graph executor ran ops, in any order."""
    arrays_vary: str | None = None
    """Why TensorFlow may take NumPy's arrays over uncounted, where that is left to chance."""
    host_collected_bytes: Number | None = None
    child_processes: Whole | None = None
    children: tuple[ChildProcesses, ChildProcesses] | None = None
    """After the warm-up and after the last step, where there were any."""
    malloc: MallocBooks | None = None
    clean: CleanReadings | None = None
    held: HostFindings | None = None
    pipelines: tuple[PipelineBuffer, ...] = ()
    """Of a memory trial: before the first steady step, and after the last."""
    program: ProgramFacts | None = None
    requests: RequestSequence | None = None
    out_of_memory: FailedRequest | None = None
    unavailable: dict[str, str] | None = None
    """Metric -> why it could not be had."""
    code: dict[str, str] | None = None
    """The user's files that were loaded -> a hash of what is in each."""

    def update(self, other: TrialFacts) -> None:
        """Take over what the other one knows."""
        for name in self.__struct_fields__:
            if (value := getattr(other, name)) is not None:
                setattr(self, name, value)
