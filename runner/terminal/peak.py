"""What a peak is made of, as text: by line of code, by layer or by op; and what leaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from runner.allocations import GRADIENT, Allocations, Frame, Group, Leak
from runner.metrics import readable_bytes
from runner.report.lines import place, tensors
from runner.report.peak import (
    moment,
    no_gradient,
    percent,
    shape,
    split_words,
    together,
    uncounted,
    where,
)
from runner.terminal.tables import aligned, widths

By = Literal["line", "layer", "op"]

MOST_CODE = 72
MOST_LAYERS = 8
MOST_LEAKS = 8


def of(allocations: Allocations, most: int, by: By = "line") -> str:
    """The peak in one line, then what it is made of, the sum last; then layers and leaks."""
    words = split_words(allocations.split)
    title = f"{readable_bytes(allocations.total_bytes)} at the peak, {moment(allocations)}"
    text = [f"{title}: {words}" if words else title]
    text += [beside for beside in (no_gradient(allocations), uncounted(allocations)) if beside]
    text.append("")
    if by == "line" and allocations.lines:
        text += _by_line(allocations, most)
        layers = _by_layer(allocations, MOST_LAYERS)
        text += ["", "by layer or scope:", *layers] if layers else []
    elif by == "layer" and (layers := _by_layer(allocations, most)):
        text += layers
    else:
        if by == "layer":
            text += ["TensorFlow names no layer or scope for what is live here.", ""]
        text += _by_op(allocations, most)
    if allocations.leaks:
        text += ["", *_leaks(allocations.leaks, allocations.frames)]
    return "\n".join(text)


def _by_line(allocations: Allocations, most: int) -> list[str]:
    total = allocations.total_bytes
    rows = [["bytes", "", "share", "line", "code"]]
    details = [""]
    for line in allocations.lines[:most]:
        rows.append([*_sizes(line.bytes, total), place(line), _cut(line.code or line.why or "")])
        details.append(f"{split_words(line.split)} · {tensors(line)}")
    if rest := allocations.lines[most:]:
        size = sum(line.bytes for line in rest)
        rows.append([*_sizes(size, total), f"{len(rest)} smaller lines", ""])
        details.append("")
    rows.append([*_sizes(total, total), "sum", ""])
    details.append("")
    indent = " " * (sum(widths(rows)[:3]) + 6)
    text = []
    for row, detail in zip(aligned(rows, range(3)), details, strict=True):
        text += [row, f"{indent}{detail}"] if detail else [row]
    return text


class _Layer(NamedTuple):
    scope: str
    tensors: int
    bytes: int
    gradient_bytes: int


def _by_layer(allocations: Allocations, most: int) -> list[str]:
    """Each scope with its gradient's ops; nothing where no scope is known."""
    sums: dict[str, list[int]] = {}
    for group in allocations.groups:
        for scope in group.scopes:
            parts = scope.scope.split("/")
            is_gradient = parts[-1] == GRADIENT
            name = "/".join(parts[:-1] if is_gradient else parts)
            found = sums.setdefault(name, [0, 0, 0])
            found[0] += scope.count
            found[1] += scope.bytes
            found[2] += scope.bytes if is_gradient else 0
    if not any(sums):
        return []
    layers = sorted((_Layer(name, *found) for name, found in sums.items()), key=lambda a: -a.bytes)
    total = allocations.total_bytes
    rows = [["bytes", "", "share", "count", "layer or scope"]]
    for layer in layers[:most]:
        of_gradient = layer.gradient_bytes
        remark = f" (of its gradient {readable_bytes(of_gradient)})" if of_gradient else ""
        name = f"{layer.scope or 'in no scope'}{remark}"
        rows.append([*_sizes(layer.bytes, total), f"{layer.tensors:,}", name])
    if rest := layers[most:]:
        size, count = sum(one.bytes for one in rest), sum(one.tensors for one in rest)
        rows.append([*_sizes(size, total), f"{count:,}", f"{len(rest)} smaller ones"])
    return aligned(rows, range(4))


def _by_op(allocations: Allocations, most: int) -> list[str]:
    groups, total = allocations.groups, allocations.total_bytes
    known = any(where(group) for group in groups)
    head = "layer or scope, most bytes first" if known else ""
    rows = [["op", "shape", "dtype", "count", "bytes", "", "share", head]]
    for group in groups[:most]:
        op, figures = group.op or "unknown", _counted([group], total)
        rows.append([op, shape(group.shape), group.dtype, *figures, where(group)])
    if rest := groups[most:]:
        rows.append([f"{len(rest)} smaller groups", "", "", *_counted(rest, total), ""])
    rows.append(["sum", "", "", *_counted(groups, total), ""])
    return aligned(rows, range(3, 7))


def _leaks(leaks: Sequence[Leak], frames: Sequence[Frame]) -> Iterator[str]:
    size = sum(leak.bytes_per_step for leak in leaks)
    yield f"{readable_bytes(size)} a step stay and are still live when the next step has ended:"
    rows = [["bytes a step", "count", "what", "line", "code"]]
    for leak in leaks[:MOST_LEAKS]:
        frame = frames[leak.stack[-1]] if leak.stack else None
        shaped = "" if leak.shape is None else f" {shape(leak.shape)} {leak.dtype}"
        rows.append(
            [
                *(readable_bytes(leak.bytes_per_step), f"{leak.count_per_step:,.3g}"),
                f"{leak.op}{shaped}",
                f"{frame.file}:{frame.line}" if frame else "no line",
                _cut(frame.code) if frame else "",
            ]
        )
    yield from aligned(rows, range(2))
    if len(leaks) > MOST_LEAKS:
        yield f"and {len(leaks) - MOST_LEAKS} smaller ones"


def _counted(groups: Sequence[Group], total: int) -> list[str]:
    whole = together(groups)
    return [f"{whole.count:,}", *_sizes(whole.bytes, total)]


def _sizes(size: int, total: int) -> list[str]:
    return [readable_bytes(size), f"({size:,})", percent(size / total if total else 1.0)]


def _cut(code: str) -> str:
    return code if len(code) <= MOST_CODE else f"{code[: MOST_CODE - 1]}…"
