"""A record's allocations as files that other tools open.

    timeline.json        Perfetto, Chrome's about:tracing
    allocations.folded   flame graphs
    allocations.csv      spreadsheets, pandas

Made of what `record.json` holds under `allocations`; nothing is measured here.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from runner import paths
from runner.allocations import GRADIENT, Allocations, Group, LinePart, SourceLine
from runner.records import Record
from runner.render.peak import PARTS, list_leaves, name_op
from runner.sanitize import escape_csv, make_printable


def write_files(record: Record, folder: Path) -> list[Path]:
    """Write the files of a run into its folder, as far as its record has what they show; return
    where they are."""
    allocations = record.allocations
    if not allocations or not allocations.groups:
        return []
    texts = {}
    if allocations.curve.seconds:
        texts["timeline.json"] = json.dumps(make_timeline(allocations), separators=(",", ":"))
    if all(group.scopes for group in allocations.groups):
        texts["allocations.folded"] = fold_stacks(allocations)
    texts["allocations.csv"] = write_csv(allocations)
    return [paths.write_text(folder / name, text) for name, text in texts.items()]


def write_csv(allocations: Allocations) -> str:
    """Return a row for what one line made of one op, shape and dtype, the largest lines first; of a
    record without lines, a row a group. The bytes sum to the peak."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ["file", "line", "code", "op", "shape", "dtype", "count", "bytes", "share"]
    writer.writerow([*head, *PARTS, "scopes"])
    rows: list[tuple[SourceLine | None, Group | LinePart]]
    rows = [(line, part) for line in allocations.lines for part in line.parts]
    for line, group in rows or [(None, group) for group in allocations.groups]:
        shape = "" if group.shape is None else "x".join(map(str, group.shape)) or "scalar"
        scoped = [group] if isinstance(group, LinePart) else group.scopes
        share = group.bytes / allocations.total_bytes if allocations.total_bytes else 0.0
        row = [
            *((line.file, line.line, line.code) if line else ("", "", "")),
            *(group.op, shape, group.dtype, group.count, group.bytes, f"{share:.6f}"),
            *(getattr(group.split, name, None) for name in PARTS),
            " ".join(part.scope for part in scoped if part.scope),
        ]
        writer.writerow([escape_csv(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


def fold_stacks(allocations: Allocations) -> str:
    """Return folded stacks: the user's stack, outermost first, the layers and scopes where they are
    known, and at the end the tensors: `step train.py:3;block_0;dense;MatMul float32[2,3] BYTES`."""
    leaves = [] if allocations.lines else list_leaves(allocations)
    for part in (part for line in allocations.lines for part in line.parts):
        frames = [allocations.frames[number] for number in part.stack]
        stack = [f"{frame.function} {frame.file}:{frame.line}" for frame in frames] or ["no line"]
        layers = [layer for layer in part.scope.split("/") if layer not in ("", GRADIENT)]
        tensors = f"{name_op(part)} {GRADIENT}" if part.is_gradient else name_op(part)
        leaves.append(((*stack, *layers, tensors), part.bytes))
    lines = (
        f"{make_printable(';'.join(name.replace(';', ',') for name in path))} {size}\n"
        for path, size in leaves
    )
    return "".join(sorted(lines))


def make_timeline(allocations: Allocations) -> dict[str, Any]:
    """Return live bytes over time as a counter, phases and steps as slices, in Chrome's format. The
    curve of the whole trial is finest where the peak is."""

    def make_event(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"ph": kind, "pid": 1, "tid": 1, "name": name, **more}

    def to_microseconds(seconds: float) -> float:
        return round(seconds * 1e6, 3)  # the format's unit, to the nanosecond that events have

    events = [
        make_event("M", "process_name", args={"name": "tensor memory"}),
        make_event("M", "thread_name", args={"name": "phases, steps"}),
    ]
    for phase, step, begin, end in allocations.marks:
        name = f"step {step}" if phase == "steps" else phase
        begin_us = to_microseconds(begin)
        lasts = round(to_microseconds(end) - begin_us, 3)
        events.append(make_event("X", name, ts=begin_us, dur=lasts))
    # Both curves have points of the one step function. In the stretch of the peak only its own
    # count, or points of one instant could come out in the wrong order.
    curve, fine = allocations.curve.points, allocations.peak_curve.points
    if fine:
        before = [point for point in curve if point[0] < fine[0][0]]
        curve = [*before, *fine, *(point for point in curve if point[0] > fine[-1][0])]
    for seconds, size in curve:
        events.append(make_event("C", "live", ts=to_microseconds(seconds), args={"bytes": size}))
    peaks = [seconds for seconds, size in curve if size == allocations.total_bytes]
    if peaks:
        args = {"bytes": allocations.total_bytes}
        events.append(make_event("i", "peak", ts=to_microseconds(peaks[0]), s="p", args=args))
    return {"traceEvents": events, "displayTimeUnit": "ms"}
