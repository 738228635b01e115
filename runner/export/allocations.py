"""A record's allocations in forms that other tools open, and as a tree by scope: views.

Pure functions of what `record.json` holds under `allocations`; nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runner.allocations import GRADIENT, Allocations, Group, Part

Leaf = tuple[tuple[str, ...], int, int]
"""A path of scopes with an op at its end, a count and bytes."""


@dataclass(frozen=True)
class Branch:
    """A scope, or at the end of a path an op: what was live at the peak in it and below."""

    name: str
    count: int
    bytes: int
    children: tuple[Branch, ...]
    """Largest first; their bytes sum to the branch's."""


def tree(allocations: Allocations) -> Branch:
    """What was live at the peak, opened by scope: model, layer, ..., op."""
    return _branch("all", list(_leaves(allocations)))


def _branch(name: str, leaves: list[Leaf]) -> Branch:
    below: dict[str, list[Leaf]] = {}
    for path, count, size in leaves:
        if path:
            below.setdefault(path[0], []).append((path[1:], count, size))
    children = [_branch(child, its_leaves) for child, its_leaves in below.items()]
    return Branch(
        name,
        count=sum(count for _, count, _ in leaves),
        bytes=sum(size for _, _, size in leaves),
        children=tuple(sorted(children, key=lambda child: (-child.bytes, child.name))),
    )


def folded(allocations: Allocations) -> str:
    """The same as folded stacks, for flame graphs: the user's stack, outermost first, the layers
    and scopes where they are known, and at the end the tensors,
    `step train.py:3;call model.py:7;block_0;dense;MatMul float32[2,3] BYTES`."""
    lines = (
        f"{';'.join(name.replace(';', ',') for name in path)} {size}"
        for path, size in _stacks(allocations)
    )
    return "".join(f"{line}\n" for line in sorted(lines))


def chrome_trace(allocations: Allocations) -> dict[str, Any]:
    """Live bytes over time as a counter, phases and steps as slices: the JSON that Perfetto and
    Chrome's `about:tracing` open. The curve of the whole trial is finest where the peak is."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "tensor memory"}},
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "phases, steps"}},
    ]
    for phase, step, begin, end in allocations.marks:
        begin_us, end_us = _microseconds(begin), _microseconds(end)
        lasts = round(end_us - begin_us, 3)
        slice_ = {"ph": "X", "pid": 1, "tid": 1, "ts": begin_us, "dur": lasts}
        events.append({**slice_, "name": f"step {step}" if phase == "steps" else phase})
    curve = _curve(allocations)
    events += [
        {
            "ph": "C",
            "pid": 1,
            "tid": 1,
            "name": "live",
            "ts": _microseconds(seconds),
            "args": {"bytes": size},
        }
        for seconds, size in curve
    ]
    peak = [seconds for seconds, size in curve if size == allocations.total_bytes]
    if peak:
        instant = {"ph": "i", "pid": 1, "tid": 1, "s": "p", "ts": _microseconds(peak[0])}
        events.append({**instant, "name": "peak", "args": {"bytes": allocations.total_bytes}})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _microseconds(seconds: float) -> float:
    """The format's unit, to the nanosecond that events have."""
    return round(seconds * 1e6, 3)


def _stacks(allocations: Allocations) -> Iterator[tuple[tuple[str, ...], int]]:
    if not allocations.lines:
        yield from ((path, size) for path, _, size in _leaves(allocations))
    for line in allocations.lines:
        for part in line.parts:
            stack = (allocations.frames[number] for number in part.stack)
            places = [f"{frame.function} {frame.file}:{frame.line}" for frame in stack]
            layers = [each for each in part.scope.split("/") if each not in ("", GRADIENT)]
            gradient = f" {GRADIENT}" if part.is_gradient else ""
            yield (*(places or ["no line"]), *layers, f"{label(part)}{gradient}"), part.bytes


def label(group: Group | Part) -> str:
    """A group in short: `MatMul float32[2,3]`; without a shape, as XLA's lumps are, just the op."""
    if group.shape is None:
        return group.op
    shape = ",".join(str(size) for size in group.shape)
    return f"{group.op} {group.dtype}[{shape}]"


def _leaves(allocations: Allocations) -> Iterator[Leaf]:
    for group in allocations.groups:
        for scope in group.scopes:
            path = tuple(part for part in scope.scope.split("/") if part)
            yield (*path, label(group)), scope.count, scope.bytes


def _curve(allocations: Allocations) -> list[tuple[float, int]]:
    """Both curves, in order of time: each has points of the one step function. In the stretch of
    the peak only its own count, or points of one instant could come out in the wrong order."""
    whole, fine = allocations.curve.points, allocations.peak_curve.points
    if not fine:
        return whole
    begin, end = fine[0][0], fine[-1][0]
    return [
        *(point for point in whole if point[0] < begin),
        *fine,
        *(point for point in whole if point[0] > end),
    ]
