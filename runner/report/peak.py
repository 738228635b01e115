"""What a peak is made of: in words, as a bar, by group, by scope, over time; for page and terminal.

Reads `record.allocations`. An older record that lacks split, scopes, leaks or curves has a shorter
section, and no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from runner.allocations import Allocations, Group, Leak, Split
from runner.export import allocations as allocation_views
from runner.export.allocations import Branch
from runner.metrics import readable_bytes, readable_seconds
from runner.report.charts import (
    Band,
    Bar,
    Bent,
    Flag,
    Line,
    Linear,
    Part,
    Scale,
    bars,
    from_zero,
    legend,
    plot,
)
from runner.report.markup import Node, tag
from runner.report.tables import Cell, Head, exact_bytes, table

MOST_GROUPS = 25
"""Of a table; the smaller ones are one row, and allocations.csv has them all."""

PARTS = {
    "held_bytes": ("held", "there before the step: weights, inputs, state"),
    "kept_bytes": ("kept", "made in the step and still there when it ends"),
    "gradient_bytes": ("gradient", "made in the step, kept for the gradient"),
    "passing_bytes": ("passing", "made and freed in the step"),
}
"""Of `split`, in the order in which they are stacked: a name in page.css, and what it means."""


def moment(allocations: Allocations) -> str:
    """When the peak was: `in step 3`."""
    if allocations.step is not None:
        return f"in step {allocations.step}"
    phase = allocations.phase
    return f"in the {phase.replace('_', ' ')}" if phase else "at a time unknown"


def parts(split: Split | None, total: float) -> list[Part]:
    """A bar's parts; one that says nothing where the split is not known."""
    if not split:
        return [Part("unknown", total, readable_bytes(total))]
    return [
        Part(kind, size, f"{kind}: {readable_bytes(size)} ({meaning})")
        for name, (kind, meaning) in PARTS.items()
        if (size := getattr(split, name))
    ]


def split_words(split: Split | None, least: float = 1) -> str:
    """`held 91.2 kB · passing 5.07 MB`; what is less than `least` is left out."""
    known = [(kind, getattr(split, name, None) or 0) for name, (kind, _) in PARTS.items()]
    return " · ".join(f"{kind} {readable_bytes(value)}" for kind, value in known if value >= least)


def no_gradient(allocations: Allocations) -> str:
    """Why what is kept for the gradient is not told from the rest, in a sentence; empty where it
    is."""
    if not allocations.split or allocations.split.gradient_bytes is not None:
        return ""
    why = allocations.gradient_why or "an older version recorded this"
    return f"What is kept for the gradient counts among the rest: {why}."


def kinds_legend(splits: Sequence[Split]) -> Element:
    """Of the parts that occur."""
    return legend(
        [
            (kind, f"{kind}: {meaning}")
            for name, (kind, meaning) in PARTS.items()
            if any(getattr(split, name) for split in splits)
        ]
    )


# What it is made of.


def made_of(allocations: Allocations) -> Iterator[Node]:
    """The peak as one bar, and its groups, which sum to it."""
    total, split = allocations.total_bytes, allocations.split
    yield tag(
        "p",
        tag("b", readable_bytes(total)),
        f" ({exact_bytes(total)}) were live at the highest moment, {moment(allocations)}.",
    )
    if split:
        yield kinds_legend([split])
        yield bars([Bar("peak", parts(split, total), readable_bytes(total), split_words(split))])
        if unknown := no_gradient(allocations):
            yield tag("p", unknown, class_="note")


def groups_table(allocations: Allocations, most: int = MOST_GROUPS) -> Element:
    """By op, shape and dtype, largest first; its last row is the sum of what stands above it."""
    groups, total = allocations.groups, allocations.total_bytes
    shown, rest = groups[:most], groups[most:]
    largest = max((group.bytes for group in groups), default=0) or 1
    rows = [
        [
            Cell(group.op or "unknown"),
            Cell(shape(group.shape)),
            Cell(group.dtype),
            Cell(f"{group.count:,}", value=group.count, figure=True),
            _bytes(group.bytes),
            _share(group.share),
            Cell(_bar(group, largest)),
            Cell(where(group), wraps=True),
        ]
        for group in shown
    ]
    if rest:
        left = together(rest)
        rows.append(
            [
                *(Cell(f"{len(rest)} smaller groups"), Cell(""), Cell("")),
                Cell(f"{left.count:,}", value=left.count, figure=True),
                *(_bytes(left.bytes), _share(left.bytes / total), Cell(_bar(left, largest))),
                Cell(""),
            ]
        )
    whole = together(groups)
    last = [
        *(Cell("sum"), Cell(""), Cell(""), Cell(f"{whole.count:,}", figure=True)),
        *(_bytes(whole.bytes), _share(whole.bytes / total if total else 1.0)),
        *(Cell(""), Cell("")),
    ]
    head = [
        *(Head("op"), Head("shape"), Head("dtype"), Head("count", figure=True)),
        *(Head("bytes", figure=True), Head("share", figure=True), Head("of which")),
        Head("layer or scope, most bytes first"),
    ]
    return table(head, rows, total=last, sortable=True, label="what was live at the peak")


def where(group: Group) -> str:
    """The layer or scope that holds the most of a group, and how many others have the rest;
    nothing where TensorFlow tells none."""
    named = [scope.scope for scope in group.scopes if scope.scope]
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return f"{named[0]}{more}" if named else ""


@dataclass(frozen=True)
class Together:
    """Several groups as one; its split is known where it is known of all."""

    count: int
    bytes: int
    split: Split | None


def together(groups: Sequence[Group]) -> Together:
    splits = [group.split for group in groups if group.split]
    sums = [sum(getattr(split, name) or 0 for split in splits) for name in PARTS]
    return Together(
        sum(group.count for group in groups),
        sum(group.bytes for group in groups),
        Split(*sums) if len(splits) == len(groups) else None,
    )


def shape(sizes: Sequence[int] | None) -> str:
    """`64 x 100`; a scalar and an unknown shape say so."""
    if sizes is None:
        return "unknown"
    return " x ".join(map(str, sizes)) or "scalar"


def _bytes(value: int) -> Cell:
    return Cell(readable_bytes(value), exact_bytes(value), value, figure=True)


def _share(value: float) -> Cell:
    return Cell(percent(value), value=value, figure=True)


def percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.9995 else f"{100 * share:.0f} %"


def _bar(group: Group | Together, largest: float) -> Element:
    drawn = parts(group.split, group.bytes)
    return tag(
        "span",
        (
            tag("i", class_=part.kind, style=f"width:{100 * part.value / largest:.2f}%")
            for part in drawn
        ),
        class_="track small",
        title=split_words(group.split) or None,
    )


# By scope.


def scopes(allocations: Allocations) -> Iterator[Node]:
    """The tree; only where TensorFlow tells a scope at all."""
    known = [scope.scope for group in allocations.groups for scope in group.scopes]
    if not known:
        return
    if not any(known):
        yield tag(
            "p",
            "TensorFlow names no layer or scope for what is live here, as is so in eager mode.",
            class_="note",
        )
        return
    root = allocation_views.tree(allocations)
    yield tag("div", [_branch(child, root.bytes, 0) for child in root.children], class_="tree")


def _branch(branch: Branch, total: int, depth: int) -> Element:
    """Open as long as it holds a good part of the peak, so that one sees which block has it."""
    line = [
        tag("span", branch.name, class_="name"),
        tag("span", readable_bytes(branch.bytes), class_="figure", title=exact_bytes(branch.bytes)),
        tag("span", percent(branch.bytes / total), class_="figure"),
        tag("span", tag("i", class_="held", style=f"width:{100 * branch.bytes / total:.2f}%"),
            class_="track small"),
    ]  # fmt: skip
    if not branch.children:
        return tag("div", line, class_="leaf")
    return tag(
        "details",
        tag("summary", line),
        tag("div", [_branch(child, total, depth + 1) for child in branch.children]),
        open=depth < 6 and branch.bytes >= total / 4,
    )


# Over time.

LEAST_WIDTH = 0.14
"""Of each phase in the picture of a whole trial, however short it was."""


@dataclass(frozen=True)
class LiveBytes:
    """A curve with what it takes to draw it, on a page or as a PNG."""

    title: str
    points: Sequence[tuple[float, float]]
    highest: tuple[float, float]
    scale: Scale
    bands: Sequence[Band]
    x_name: str


def curves(allocations: Allocations) -> list[LiveBytes]:
    """Live bytes through the peak's step, and through the whole trial, as far as they are kept."""
    fine, whole = allocations.peak_curve.points, allocations.curve.points
    found = []
    if fine:
        begin, end = fine[0][0], fine[-1][0]
        points = [(x - begin, y) for x, y in fine]
        found.append(
            LiveBytes(
                f"Through the peak's {'phase' if allocations.step is None else 'step'}",
                points,
                _highest(points),
                Linear(0.0, (end - begin) or 1.0, readable_seconds),
                [],
                f"time since it began, {moment(allocations)}",
            )
        )
    if whole:
        bands = phases(allocations)
        if bands and bands[-1].high > whole[-1][0]:  # nothing happened after the last event
            whole.append((bands[-1].high, whole[-1][1]))
        begin, end = (fine[0][0], fine[-1][0]) if fine else (whole[0][0], whole[-1][0])
        inside = [point for point in whole if begin <= point[0] <= end]
        found.append(
            LiveBytes(
                "Through the whole trial",
                whole,
                _highest(inside or whole),  # another step may have been as high
                Bent(joints(bands, whole), readable_seconds),
                bands,
                "time since the trace began; each phase is as wide as it needs to be seen",
            )
        )
    return found


def _highest(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return max(points, key=lambda point: point[1])


def over_time(allocations: Allocations) -> Iterator[Node]:
    """The curves as plots."""
    for curve in curves(allocations):
        yield tag("h3", curve.title)
        when, level = curve.highest
        words = f"peak {readable_bytes(level)}"
        texts = [f"{exact_bytes(b)} at {readable_seconds(a)}" for a, b in curve.points]
        yield plot(
            [Line(curve.points, texts, stairs=True)],
            curve.scale,
            from_zero([allocations.total_bytes, level], readable_bytes),
            summary=f"Live tensor bytes over time, {len(curve.points)} points, {words} at "
            f"{readable_seconds(when)}. The arrow keys read them one by one.",
            x_name=curve.x_name,
            bands=curve.bands,
            flag=Flag(when, level, words),
        )


def phases(allocations: Allocations) -> list[Band]:
    """From when to when; the steady steps are one."""
    found: dict[str, Band] = {}
    for phase, _, begin, end in allocations.marks:
        first = found.get(phase)
        found[phase] = Band(phase.replace("_", " "), first.low if first else begin, end)
    return list(found.values())


def joints(
    bands: Sequence[Band], points: Sequence[tuple[float, float]]
) -> Sequence[tuple[float, float]]:
    """The bent scale of a whole trial: time runs evenly within a phase, and each has some room."""
    begin = min([points[0][0], *(band.low for band in bands)])
    end = max([points[-1][0], *(band.high for band in bands)])
    times = sorted({begin, end, *(time for band in bands for time in (band.low, band.high))})
    lengths = [after - before for before, after in pairwise(times)]
    total = sum(lengths) or 1.0
    named = {band.low for band in bands}
    widths = [
        max(length / total, LEAST_WIDTH if before in named else 0.0)
        for before, length in zip(times, lengths, strict=False)
    ]
    across, found = 0.0, [(times[0], 0.0)]
    for time, width in zip(times[1:], widths, strict=True):
        across += width / (sum(widths) or 1.0)
        found.append((time, min(across, 1.0)))
    return found


# What leaks.


def leaks(allocations: Allocations) -> Iterator[Node]:
    found, steps = allocations.leaks, allocations.leak_steps
    if found is None or not steps:
        return
    if not found:
        yield tag("p", f"Nothing: live bytes do not grow over {steps + 1} steps.")
        return
    yield tag("p", f"Made in one step and still live when the next one ended, over {steps} steps:")
    known = any(leak.stack for leak in found)
    rows = [
        [
            *(Cell(leak.op or "unknown"), Cell(leak.scope or "–"), Cell(shape(leak.shape))),
            Cell(leak.dtype),
            Cell(f"{leak.count_per_step:,.3g}", value=leak.count_per_step, figure=True),
            Cell(
                f"{readable_bytes(leak.bytes_per_step)}/step",
                f"{leak.bytes_per_step:,.15g} bytes/step",
                leak.bytes_per_step,
                figure=True,
            ),
            *([Cell(_line_of(leak, allocations), wraps=True)] if known else []),
        ]
        for leak in found
    ]
    head = [
        *(Head("op"), Head("scope"), Head("shape"), Head("dtype")),
        *(Head("count a step", figure=True), Head("bytes a step", figure=True)),
        *([Head("line")] if known else []),
    ]
    yield table(head, rows, sortable=True, label="what leaks")


def _line_of(leak: Leak, allocations: Allocations) -> str:
    if not leak.stack:
        return "no line"
    frame = allocations.frames[leak.stack[-1]]
    return f"{frame.file}:{frame.line}  {frame.code}"


def uncounted(allocations: Allocations) -> str:
    """What is live at the peak and has memory that TensorFlow's allocator never sees, in a
    sentence: the bytes above count its handles only. Empty where there is none."""
    found = sorted({name for group in allocations.groups if (name := _handle_of(group))})
    if not found:
        return ""
    return f"without the memory behind {' and '.join(found)}: the host peak has that, too"


def _handle_of(group: Group) -> str | None:
    """A variable is a resource and a list of tensors is a variant, but theirs is counted."""
    if group.dtype == "string":
        return f"{group.count:,} string {'tensor' if group.count == 1 else 'tensors'}"
    if "HashTable" in group.op:
        return "lookup tables"
    is_counted = group.op.startswith(("VarHandle", "TensorList", "EmptyTensorList"))
    is_handle = group.dtype in ("resource", "variant") and not is_counted
    return f"{group.dtype}s of {group.op}" if is_handle else None


def trust(allocations: Allocations) -> str:
    """How far the events can be believed, in a sentence."""
    checks = allocations.checks
    if not checks:
        return ""
    odd = [
        f"{count:,} {words}"
        for name, words in (
            ("unmatched_frees", "frees of what was never seen allocated"),
            ("reused_addresses", "addresses used again without a free"),
            ("disagreements", "events at which the allocator's own total differs"),
        )
        if (count := getattr(checks, name))
    ]
    said = ", ".join(odd) or "each one agrees with the allocator's own running total"
    return f"Replayed from {checks.events:,} allocation events: {said}."
