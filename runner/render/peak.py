"""The parts of a peak, in words and in slices, for the terminal and the page alike.

Reads `record.allocations`. An older record that lacks split, scopes, leaks or curves is described
in less detail, without an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from runner.allocations import GRADIENT, Allocations, Frame, Group, LeakedGroup, LinePart, Split
from runner.analysis import estimate, repeatability
from runner.analysis.tolerance import find_tolerance
from runner.metrics import ALLOCATOR_PEAK, METRICS, TENSOR_PEAK, format_bytes, format_metric
from runner.records import Record
from runner.render.tables import Column, Table, TableCell, make_table
from runner.render.words import count_things, format_exact_bytes, join_first

MOST_SLICES = 25
"""Rows of a table: the smaller slices are one row, and allocations.csv has them all."""

PARTS = {
    "held_bytes": ("held", "there before the step: weights, inputs, state"),
    "kept_bytes": ("kept", "made in the step and still there when it ends"),
    "gradient_bytes": ("gradient", "made in the step, kept for the gradient"),
    "passing_bytes": ("passing", "made and freed in the step"),
}
"""The fields of a split, in the order in which they are stacked: a name, and what it means."""

_MOST_TENSORS = 3
_MOST_CALLERS = 3

_PIPELINE = ("Iterator", "Dataset", "MemoryCache", "SeedGenerator", "Optional")
"""An op that makes what tf.data holds has one of these in its name: its elements are tensors."""
_READERS = ("TFRecord", "TextLine", "FixedLengthRecord")
"""An op that reads files ahead, into buffers of its own, begins with one of these."""


def name_moment(allocations: Allocations) -> str:
    """Return when the peak was: `in step 3`."""
    if allocations.step is not None:
        return f"in step {allocations.step}"
    phase = allocations.phase
    return f"in the {phase.replace('_', ' ')}" if phase else "at a time unknown"


def name_stretch(allocations: Allocations) -> str:
    """Return what the peak is in, a `step` or a `phase`."""
    return "phase" if allocations.step is None else "step"


def describe_split(split: Split | None, least: float = 1) -> str:
    """Return `held 91.2 kB · passing 5.07 MB`, without what is less than `least` bytes."""
    known = [(name, getattr(split, field, None) or 0) for field, (name, _) in PARTS.items()]
    return " · ".join(f"{name} {format_bytes(value)}" for name, value in known if value >= least)


def describe_shape(sizes: Sequence[int] | None) -> str:
    """Return `64 x 100`, `scalar` or `unknown`."""
    return "unknown" if sizes is None else " x ".join(map(str, sizes)) or "scalar"


def describe_peak(record: Record) -> str:
    """Return the peak to the byte, and of how many processes it is, unless it was shown to repeat;
    where processes differ, the range and, unless a comparison calls them the same, how many others
    may lie above it."""
    peaks = estimate.list_samples(record.trials, TENSOR_PEAK, record.spec)
    if not peaks:
        value = record.metrics.get(TENSOR_PEAK)
        return "" if value is None else format_exact_bytes(value)
    seen = format_exact_bytes(max(peaks))
    processes = f"in {count_things(len(peaks), 'process', 'processes')}"
    if min(peaks) < max(peaks):
        one_in = repeatability.bound_higher_peaks(len(peaks))
        more = f"at most 1 in {one_in} others{_describe_length(record)}"
        more = more if one_in > 1 else "others may need more, how much is not known"
        span = f"{min(peaks):,} to {seen} {processes}"
        return span if find_tolerance(METRICS[TENSOR_PEAK]).same(peaks) else f"{span}; {more}"
    if repeatability.can_vary(record.trials, record.spec.execution):
        return f"{seen} {processes}; others may need more, how much is not known"
    is_shown = len(peaks) >= repeatability.ALIKE
    return seen if is_shown else f"{seen} {processes}"


def _describe_length(record: Record) -> str:
    """Return the end of "1 in 2 others": of how many steps, where more of them may need more, as
    the steps of one process peak differently."""
    tolerance = find_tolerance(METRICS[TENSOR_PEAK])
    for trial in repeatability.list_memory_trials(record.trials):
        steps = trial.steps
        begins, highest = steps.tensor_begin_bytes, steps.tensor_peak_bytes
        levels = [begin + above for begin, above in zip(begins, highest, strict=True)]
        if levels and not tolerance.same(levels):
            return f" of {len(levels) + 1} steps needs more (95 %); a longer run may, too"
    return " needs more (95 %)"


def explain_absence(record: Record) -> str:
    """Return why a record has no list of what was live at the peak, with the allocator's own peak
    if that is known."""
    if record.allocations and not record.allocations.total_bytes:
        return "0 B: the step makes no tensors"
    why = record.unavailable.get(TENSOR_PEAK, "its allocations were not recorded")
    return f"unknown: {why}{describe_allocator_peak(record)}"


def describe_allocator_peak(record: Record) -> str:
    """Return TensorFlow's own figure of its peak, for a record without ours."""
    value = record.metrics.get(ALLOCATOR_PEAK)
    own = "TensorFlow's own figure, its rounding included, is"
    return "" if value is None else f"; {own} {format_metric(ALLOCATOR_PEAK, value)}"


def warn_of_end(record: Record) -> str:
    """Return a sentence for a run that did not complete, whose peak is not that of a whole run;
    empty for one that did."""
    if record.outcome.completed:
        return ""
    has_figures = record.allocations or any(value is not None for value in record.metrics.values())
    meaning = " Its figures are of what ran until then, and not those of a whole run."
    return f"This run ended early: {record.outcome.words}.{meaning * bool(has_figures)}"


def explain_no_gradient(allocations: Allocations) -> str:
    """Return why the bytes kept for the gradient are not known; empty where they are."""
    if not allocations.split or allocations.split.gradient_bytes is not None:
        return ""
    why = allocations.gradient_why or "an older version recorded this"
    return f"Bytes kept for the gradient are counted among the others: {why}."


def describe_uncounted(allocations: Allocations) -> str:
    """Return what is live at the peak and has memory that TensorFlow's allocator never sees: the
    bytes of the peak count its handles only. Empty where there is none."""
    strings = sum(group.count for group in allocations.groups if group.dtype == "string")
    kinds = [f"the text of {count_things(strings, 'string tensor')}"] if strings else []
    kinds += sorted(set(filter(None, map(_name_handle, allocations.groups))))
    return f"not counted: {', '.join(kinds)}; the host peak has them" if kinds else ""


def _name_handle(group: Group) -> str:
    """Return what a handle stands for. A variable is a resource and a list of tensors is a variant,
    but their memory is the allocator's."""
    if "HashTable" in group.op:
        return "lookup tables"
    is_counted = group.op.startswith(("VarHandle", "TensorList", "EmptyTensorList"))
    if group.dtype not in ("resource", "variant") or is_counted:
        return ""
    if group.op.startswith(_READERS):
        return "what tf.data has read of files"
    return "" if any(word in group.op for word in _PIPELINE) else "other resources"


def describe_checks(allocations: Allocations) -> str:
    """Return how far the allocation events can be believed, in a sentence."""
    checks = allocations.checks
    if not checks:
        return ""
    odd = (
        (checks.unmatched_frees, "frees of what was never seen allocated"),
        (checks.reused_addresses, "addresses used again without a free"),
        (checks.disagreements, "events at which the allocator's own total differs"),
    )
    problems = ", ".join(f"{count:,} {words}" for count, words in odd if count)
    fine = "each one agrees with the allocator's own running total"
    return f"Replayed from {checks.events:,} allocation events: {problems or fine}."


Leaf = tuple[tuple[str, ...], int]
"""A path of scopes with an op at its end, and bytes."""


def list_leaves(allocations: Allocations) -> list[Leaf]:
    """Return what was live at the peak by scope: model, layer, ..., op."""
    return [
        ((*filter(None, scope.scope.split("/")), name_op(group)), scope.bytes)
        for group in allocations.groups
        for scope in group.scopes
    ]


_FUNCTION = re.compile(r"__inference_(?P<name>.+)_\d+")
"""The op that calls a tf.function, as TensorFlow names it."""
_PLAIN_OPS = {
    "MakeIterator": "start of a tf.data iterator",
    "IteratorGetNext": "next element of tf.data",
}


def name_op_plainly(op: str, is_gradient: bool) -> str:
    """Return the op as a person knows it: `function train_step` for `__inference_train_step_12`."""
    if function := _FUNCTION.fullmatch(op):
        return f"function {function['name']}"
    # Keras' transposed convolutions run forward what is the backward pass of a plain one.
    if "BackpropInput" in op and op.startswith("Conv") and not is_gradient:
        return f"{op} (a transposed convolution, forward)"
    return _PLAIN_OPS.get(op, op)


def _is_of_gradient(group: Group) -> bool:
    """Return True if an op's tensors may be of a gradient: no scope says otherwise."""
    return not group.scopes or any(scope.scope.endswith(GRADIENT) for scope in group.scopes)


def name_op(made: Group | LinePart) -> str:
    """Return `MatMul float32[2,3]`; without a shape, as XLA's lumps are, just the op."""
    if made.shape is None:
        return made.op
    return f"{made.op} {made.dtype}[{','.join(map(str, made.shape))}]"


@dataclass(frozen=True)
class Slice:
    """A part of the peak: what one line, layer or op made, or several of them together."""

    name: str
    count: int
    bytes: int
    split: Split | None = None
    shape: str = ""
    dtype: str = ""
    code: str = ""
    """The line's source text; empty for other slices."""
    why: str = ""
    """The reason, if no line is known."""
    detail: str = ""
    """The tensors that a line made, or the layers that an op's tensors are of."""
    callers: str = ""
    """The callers of a line for the most of its bytes, innermost first."""


def slice_by_line(allocations: Allocations) -> list[Slice]:
    """Return a slice a line of code, largest first."""
    slices = []
    for line in allocations.lines:
        # A library's line: no line of the user's led there.
        library = " (library; no line of yours)" if line.is_library else ""
        above = line.parts[0].stack[-2::-1] if line.parts else ()
        called = [
            f"{frame.file}:{frame.line}" for frame in map(allocations.frames.__getitem__, above)
        ]
        slices.append(
            Slice(
                "no line" if line.file is None else f"{line.file}:{line.line}{library}",
                line.count,
                line.bytes,
                line.split,
                code=line.code or "",
                why=line.why or "",
                detail=_describe_tensors(line.parts),
                # A comprehension is a function on the line that it is in.
                callers=join_first(dict.fromkeys(called), _MOST_CALLERS, "more"),
            )
        )
    return slices


def slice_by_op(allocations: Allocations) -> list[Slice]:
    """Return a slice an op, shape and dtype, largest first."""
    return [
        Slice(
            name_op_plainly(group.op, _is_of_gradient(group)) or "unknown",
            group.count,
            group.bytes,
            group.split,
            describe_shape(group.shape),
            group.dtype,
            detail=join_first([scope.scope for scope in group.scopes if scope.scope], 1, "more"),
        )
        for group in allocations.groups
    ]


def slice_by_layer(allocations: Allocations) -> list[Slice]:
    """Return each scope with its gradient's ops, largest first; nothing where none is known."""
    counts, sizes, gradients = Counter[str](), Counter[str](), Counter[str]()
    for scope in (scope for group in allocations.groups for scope in group.scopes):
        layer = scope.scope.removesuffix(GRADIENT)
        name = layer.removesuffix("/") if layer != scope.scope else layer
        counts[name] += scope.count
        sizes[name] += scope.bytes
        gradients[name] += scope.bytes * (layer != scope.scope)
    if not any(sizes):
        return []
    return [
        Slice(
            (name or "in no scope")
            + (f" (of its gradient {format_bytes(gradients[name])})" if gradients[name] else ""),
            counts[name],
            size,
        )
        for name, size in sizes.most_common()
    ]


def sum_slices(slices: Iterable[Slice], name: str) -> Slice:
    """Return several slices as one; its split is known where it is known of all."""
    slices = list(slices)
    splits = [part.split for part in slices if part.split]
    sums = [sum(getattr(split, field) or 0 for split in splits) for field in PARTS]
    return Slice(
        name,
        sum(part.count for part in slices),
        sum(part.bytes for part in slices),
        Split(*sums) if splits and len(splits) == len(slices) else None,
    )


def fold_slices(slices: Sequence[Slice], most: int, one: str) -> list[Slice]:
    """Return the first so many, and all others as one row: `12 smaller groups`."""
    if len(slices) <= most:
        return list(slices)
    rest = slices[most:]
    return [*slices[:most], sum_slices(rest, count_things(len(rest), f"smaller {one}"))]


def _describe_tensors(parts: Sequence[LinePart]) -> str:
    """Return `14 Mul 512 x 256 float32, 2 MatMul 3 x 3 float32 (gradient) and 4 more kinds`."""
    counts, sizes = Counter[str](), Counter[str]()
    for part in parts:
        kind = f"{name_tensor(part)}{' (gradient)' if part.is_gradient else ''}"
        counts[kind] += part.count
        sizes[kind] += part.bytes
    named = [f"{counts[kind]:,} {kind}" for kind, _ in sizes.most_common()]
    return join_first(named, _MOST_TENSORS, "more kinds")


def name_tensor(made: LinePart | LeakedGroup) -> str:
    """Return `Mul 512 x 256 float32`; of a shape that is unknown, just the op."""
    is_gradient = made.is_gradient if isinstance(made, LinePart) else True
    op = name_op_plainly(made.op, is_gradient)
    return op if made.shape is None else f"{op} {describe_shape(made.shape)} {made.dtype}"


def group_leaks(allocations: Allocations) -> list[LeakedGroup]:
    """Return what each step makes that the next one still has, most bytes first: what a person
    can't tell apart is one row, by whichever calls the line was reached."""
    rows: dict[object, LeakedGroup] = {}
    for leak in allocations.leaks or ():
        line = allocations.frames[leak.stack[-1]][:2] if leak.stack else None
        key = (name_tensor(leak), leak.scope, line)
        if (known := rows.get(key)) is not None:
            sums = ("count", "bytes", "count_per_step", "bytes_per_step")
            leak = replace(known, **{name: getattr(known, name) + getattr(leak, name) for name in
                                     sums})  # fmt: skip
        rows[key] = leak
    return sorted(rows.values(), key=lambda leak: -leak.bytes)


def make_leak_table(allocations: Allocations, most: int | None = None) -> Table:
    def find_frame(leak: LeakedGroup) -> Frame | None:
        return allocations.frames[leak.stack[-1]] if leak.stack else None

    columns: list[Column[LeakedGroup]] = [
        Column("bytes a step", lambda leak: TableCell(format_bytes(leak.bytes_per_step),
               f"{leak.bytes_per_step:,.15g} bytes/step", leak.bytes_per_step), is_figure=True),
        Column("count", lambda leak: TableCell(f"{leak.count_per_step:,.3g}",
               value=leak.count_per_step), is_figure=True),
        Column("what", name_tensor),
        Column("scope", lambda leak: leak.scope),
        Column("line", lambda leak: f"{frame.file}:{frame.line}" if (frame := find_frame(leak))
               else "no line"),
        Column("code", lambda leak: frame.code if (frame := find_frame(leak)) else "", wraps=True),
    ]  # fmt: skip
    return make_table(columns, group_leaks(allocations)[:most])
