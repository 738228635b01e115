"""The parts of a peak as text: by line of code, by layer or by op; and its leaks."""

from __future__ import annotations

from typing import Literal

from runner.allocations import Allocations
from runner.metrics import format_bytes
from runner.records import Record
from runner.render import peak
from runner.render.peak import Slice
from runner.render.text.table import align_columns, align_table
from runner.render.words import count_things, format_share

By = Literal["line", "layer", "op"]

MOST_CODE = 72
MOST_LAYERS = 8
MOST_LEAKS = 8


def list_record(record: Record, most: int, by: By = "line") -> str:
    """Return what a record's peak is made of; first of all that its run ended early, if it did."""
    lines = [warning] if (warning := peak.warn_of_end(record)) else []
    if record.allocations and record.allocations.groups:
        lines.append(list_peak(record.allocations, most, by))
    else:
        lines.append(peak.explain_absence(record))
    return "\n".join(lines)


def list_peak(allocations: Allocations, most: int, by: By = "line") -> str:
    """Return the peak in one line, then what it is made of, the sum last; then layers and leaks."""
    words = peak.describe_split(allocations.split)
    moment = peak.name_moment(allocations)
    title = f"{format_bytes(allocations.total_bytes)} at the peak, {moment}"
    remarks = (peak.explain_no_gradient(allocations), peak.describe_uncounted(allocations))
    text = [f"{title}: {words}" if words else title, *filter(None, remarks), ""]
    layers = peak.slice_by_layer(allocations)
    if by == "line" and allocations.lines:
        text += _list_lines(allocations, most)
        if layers:
            text += ["", "by layer or scope:", *_list_layers(layers, MOST_LAYERS)]
    elif by == "layer" and layers:
        text += _list_layers(layers, most)
    else:
        if by == "layer":
            text += ["TensorFlow names no layer or scope for what is live here.", ""]
        text += _list_ops(allocations, most)
    if leaks := peak.group_leaks(allocations):
        size = format_bytes(sum(leak.bytes_per_step for leak in leaks))
        text += ["", f"Each step leaves {size} that are still live when the next step has ended:"]
        text += align_table(peak.make_leak_table(allocations, MOST_LEAKS))
        if len(leaks) > MOST_LEAKS:
            text.append(f"and {count_things(len(leaks) - MOST_LEAKS, 'smaller one')}")
    return "\n".join(text)


def _list_lines(allocations: Allocations, most: int) -> list[str]:
    """List lines of code, each with what it made in the line below it."""
    slices = peak.slice_by_line(allocations)
    rows = [*peak.fold_slices(slices, most, "line"), peak.sum_slices(slices, "sum")]
    wide = max(len(name) for name in ("line", *(row.name for row in rows)))
    cells = [["bytes", "", "share", f"{'line':<{wide}}  code"]]
    for row in rows:
        code = row.code or row.why
        code = code if len(code) <= MOST_CODE else f"{code[: MOST_CODE - 1]}…"
        place = f"{row.name:<{wide}}  {code}".rstrip()
        details = " · ".join(filter(None, (peak.describe_split(row.split), row.detail)))
        cells.append(
            [*_format_sizes(row, rows[-1]), f"{place}\n{details}" if row.detail else place]
        )
    return align_columns(cells, range(3))


def _list_layers(slices: list[Slice], most: int) -> list[str]:
    total = peak.sum_slices(slices, "")
    cells = [["bytes", "", "share", "count", "layer or scope"]]
    for row in peak.fold_slices(slices, most, "layer"):
        cells.append([*_format_sizes(row, total), f"{row.count:,}", row.name])
    return align_columns(cells, range(4))


def _list_ops(allocations: Allocations, most: int) -> list[str]:
    slices = peak.slice_by_op(allocations)
    rows = [*peak.fold_slices(slices, most, "group"), peak.sum_slices(slices, "sum")]
    head = "layer or scope, most bytes first" if any(row.detail for row in rows) else ""
    cells = [["op", "shape", "dtype", "count", "bytes", "", "share", head]]
    for row in rows:
        sizes = _format_sizes(row, rows[-1])
        cells.append([row.name, row.shape, row.dtype, f"{row.count:,}", *sizes, row.detail])
    return align_columns(cells, range(3, 7))


def _format_sizes(row: Slice, total: Slice) -> list[str]:
    share = row.bytes / total.bytes if total.bytes else 1.0
    return [format_bytes(row.bytes), f"({row.bytes:,})", format_share(share)]
