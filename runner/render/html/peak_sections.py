"""The parts of a peak on a page: as a bar, by line, by op, by layer, over time; and its leaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from xml.etree.ElementTree import Element

from runner.allocations import Allocations, Split
from runner.metrics import format_bytes, format_seconds
from runner.render import peak
from runner.render.html import charts
from runner.render.html.elements import Node, tag
from runner.render.html.scales import LinearScale, PiecewiseScale, Scale, make_scale_from_zero
from runner.render.html.tables import draw_table
from runner.render.peak import PARTS, Slice
from runner.render.tables import (
    Column,
    make_bytes_cell,
    make_count_cell,
    make_share_cell,
    make_table,
)
from runner.render.words import count_things, format_exact_bytes, format_share

MOST_LINES = 20
LEAST_SHARE = 0.0005
"""A line with a smaller share has no row of its own."""

LEAST_WIDTH = 0.14
"""Each phase has so much of the width of a trial's curve, however short it was."""


def split_parts(split: Split | None, total: float) -> list[charts.ChartMark]:
    """Return the parts of a bar; a single one where the split is not known."""
    if not split:
        return [charts.ChartMark("unknown", total, format_bytes(total))]
    return [
        charts.ChartMark(kind, size, f"{kind}: {format_bytes(size)} ({meaning})")
        for field, (kind, meaning) in PARTS.items()
        if (size := getattr(split, field))
    ]


def draw_parts_legend(splits: Sequence[Split]) -> Element:
    return charts.draw_legend(
        [
            (f"key {kind}", f"{kind}: {meaning}")
            for field, (kind, meaning) in PARTS.items()
            if any(getattr(split, field) for split in splits)
        ]
    )


def draw_whole(allocations: Allocations) -> Iterator[Node]:
    total, split = allocations.total_bytes, allocations.split
    moment = peak.name_moment(allocations)
    words = f" ({format_exact_bytes(total)}) were live at the highest moment, {moment}."
    yield tag("p", tag("b", format_bytes(total)), words)
    if split:
        yield draw_parts_legend([split])
        parts, figure = split_parts(split, total), format_bytes(total)
        yield charts.draw_bars([charts.ChartRow("peak", parts, figure, peak.describe_split(split))])
        if why := peak.explain_no_gradient(allocations):
            yield tag("p.note", why)


def draw_lines(allocations: Allocations) -> Element:
    """Draw a table of the lines of code, largest first."""
    slices = peak.slice_by_line(allocations)
    large = sum(line.share >= LEAST_SHARE for line in allocations.lines[:MOST_LINES])
    rows = peak.fold_slices(slices, large or MOST_LINES, "line")
    return tag("div.lines", _draw_slices(slices, rows, "line", "tensors, most bytes first"))


def draw_ops(allocations: Allocations, most: int = peak.MOST_SLICES) -> Element:
    """Draw a table by op, shape and dtype, largest first."""
    slices = peak.slice_by_op(allocations)
    rows = peak.fold_slices(slices, most, "group")
    return _draw_slices(slices, rows, "op", "layer or scope, most bytes first")


def _draw_slices(slices: Sequence[Slice], rows: Sequence[Slice], head: str, rest: str) -> Element:
    """Draw rows with the sum of all slices below them."""
    total = peak.sum_slices(slices, "sum")
    whole, largest = total.bytes or 1, max((part.bytes for part in slices), default=0)

    def draw_name(row: Slice) -> Element | str:
        if not (row.code or row.why or row.callers):
            return row.name
        return tag(
            "div.place",
            tag("b", row.name),
            tag("code", row.code) if row.code else None,
            tag("small", row.why) if row.why else None,
            tag("small", f"called at {row.callers}") if row.callers else None,
        )

    def draw_split(row: Slice) -> Element | None:
        if row is total or not row.bytes:
            return None
        bar = charts.draw_bar(split_parts(row.split, row.bytes), largest, "track small")
        words = peak.describe_split(row.split)
        return tag("div.which", bar, tag("small", words) if head == "line" else None, title=words)

    columns: list[Column[Slice]] = [
        Column(head, draw_name, wraps=True),
        Column("shape", lambda row: row.shape),
        Column("dtype", lambda row: row.dtype),
        Column("bytes", lambda row: make_bytes_cell(row.bytes), is_figure=True),
        Column("share", lambda row: make_share_cell(row.bytes / whole), is_figure=True),
        Column("of which", draw_split),
        Column("count", lambda row: make_count_cell(row.count), is_figure=True),
        Column(rest, lambda row: row.detail, wraps=True),
    ]
    label = f"what was live at the peak, by {head}"
    return draw_table(make_table(columns, rows, total), label, is_sortable=True)


def draw_layers(allocations: Allocations) -> Iterator[Node]:
    """Draw the tree of layers and scopes; that there is none, where TensorFlow names none."""
    leaves = peak.list_leaves(allocations)
    if any(len(path) > 1 for path, _ in leaves):
        yield tag("div.tree", _draw_branches(leaves, allocations.total_bytes, 0))
    elif leaves:
        words = "TensorFlow names no layer or scope for what is live here, as is so in eager mode."
        yield tag("p.note", words)


def _draw_branches(leaves: Sequence[peak.Leaf], total: int, depth: int) -> Iterator[Element]:
    """Draw a branch a name, largest first; open as long as it holds a good part of the peak: so one
    sees which block has it."""
    below: dict[str, list[peak.Leaf]] = {}
    for (name, *path), size in leaves:
        below.setdefault(name, []).append((tuple(path), size))
    sizes = {name: sum(size for _, size in parts) for name, parts in below.items()}
    for name in sorted(below, key=lambda name: (-sizes[name], name)):
        size, children = sizes[name], [leaf for leaf in below[name] if leaf[0]]
        line = [
            tag("span.name", name),
            tag("span.figure", format_bytes(size), title=format_exact_bytes(size)),
            tag("span.figure", format_share(size / total)),
            charts.draw_bar([charts.ChartMark("held", size, "")], total, "track small"),
        ]
        if children:
            inner = tag("div", _draw_branches(children, total, depth + 1))
            is_open = depth < 6 and size >= total / 4
            yield tag("details", tag("summary", line), inner, open=is_open)
        else:
            yield tag("div.leaf", line)


def draw_curves(allocations: Allocations) -> Iterator[Node]:
    """Draw live bytes through the peak's step and through the whole trial, as far as they are
    kept."""
    fine, whole = allocations.peak_curve.points, allocations.curve.points
    if fine:
        begin, end = fine[0][0], fine[-1][0]
        points = [(x - begin, y) for x, y in fine]
        yield tag("h3", f"Through the peak's {peak.name_stretch(allocations)}")
        yield _draw_curve(
            points,
            points,
            LinearScale(0.0, (end - begin) or 1.0, format_seconds),
            f"time since it began, {peak.name_moment(allocations)}",
        )
    if whole:
        spans = find_phase_spans(allocations)
        if spans and spans[-1].high > whole[-1][0]:  # nothing happened after the last event
            whole.append((spans[-1].high, whole[-1][1]))
        begin, end = (fine[0][0], fine[-1][0]) if fine else (whole[0][0], whole[-1][0])
        inside = [point for point in whole if begin <= point[0] <= end]
        yield tag("h3", "Through the whole trial")
        yield _draw_curve(
            whole,
            inside or whole,  # another step may have been as high
            PiecewiseScale(find_phase_joints(spans, whole), format_seconds),
            "time since the trace began; each phase is as wide as it needs to be seen",
            spans,
        )


def _draw_curve(
    points: Sequence[tuple[float, float]],
    among: Sequence[tuple[float, float]],
    scale: Scale,
    x_name: str,
    spans: Sequence[charts.AxisSpan] = (),
) -> Element:
    """Draw live bytes; the highest point of `among` is the peak."""
    when, level = max(among, key=lambda point: point[1])
    words = f"peak {format_bytes(level)}"
    texts = [f"{format_exact_bytes(b)} at {format_seconds(a)}" for a, b in points]
    return charts.draw_plot(
        [charts.PlotLine(points, texts, is_stairs=True)],
        scale,
        make_scale_from_zero([y for _, y in points], format_bytes),
        summary=f"Live tensor bytes over time, {len(points)} points, {words} at "
        f"{format_seconds(when)}. The arrow keys read them one by one.",
        x_name=x_name,
        spans=spans,
        label=charts.PointLabel(when, level, words),
    )


def find_phase_spans(allocations: Allocations) -> list[charts.AxisSpan]:
    """Return from when to when each phase was; the steady steps are one."""
    spans: dict[str, charts.AxisSpan] = {}
    for phase, _, begin, end in allocations.marks:
        first = spans.get(phase)
        spans[phase] = charts.AxisSpan(phase.replace("_", " "), first.low if first else begin, end)
    return list(spans.values())


def find_phase_joints(
    spans: Sequence[charts.AxisSpan], points: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the joints of a scale on which time runs evenly within a phase, and each phase has
    some room."""
    ends = [time for span in spans for time in (span.low, span.high)]
    times = sorted({min([points[0][0], *ends]), max([points[-1][0], *ends]), *ends})
    total = times[-1] - times[0] or 1.0
    begins = {span.low for span in spans}
    # A phase of a microsecond has 14 % of the width before all widths are made to sum to 1; the
    # gaps between phases stay as narrow as they are.
    widths = [
        max((after - before) / total, LEAST_WIDTH if before in begins else 0.0)
        for before, after in pairwise(times)
    ]
    whole = sum(widths) or 1.0
    places = accumulate(widths, initial=0.0)
    return [(time, min(place / whole, 1.0)) for time, place in zip(times, places, strict=True)]


def draw_leaks(allocations: Allocations) -> Iterator[Node]:
    """Draw what each step makes that the next one still has."""
    leaks, steps = allocations.leaks, allocations.leak_steps
    if leaks is None or not steps:
        return
    if not leaks:
        yield tag("p", f"Nothing: live bytes do not grow over {count_things(steps + 1, 'step')}.")
        return
    over = count_things(steps, "step")
    yield tag("p", f"Made in one step and still live when the next one ended, over {over}:")
    yield draw_table(peak.make_leak_table(allocations), "what leaks", is_sortable=True)
