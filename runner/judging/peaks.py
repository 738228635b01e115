"""What the one cell of a pair holds at its peak that the other does not. A view of records.

Core: standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.allocations import Group, Part
from runner.judging.selection import Pair


@dataclass(frozen=True)
class Held:
    """Tensors of one op, shape and dtype, live at the peak of either cell."""

    op: str
    shape: str
    dtype: str
    baseline_count: int
    baseline_bytes: int
    candidate_count: int
    candidate_bytes: int
    scope: str
    """The layer or scope that makes most of the difference; empty where TensorFlow tells none."""
    line: str
    """The line of code, likewise: `train.py:12`."""

    @property
    def difference(self) -> int:
        return self.candidate_bytes - self.baseline_bytes


@dataclass(frozen=True)
class Peaks:
    """Both peaks, group by group, the largest difference first. Groups sum to the totals."""

    baseline_bytes: int
    candidate_bytes: int
    groups: tuple[Held, ...]

    @property
    def apart(self) -> tuple[Held, ...]:
        return tuple(
            group
            for group in self.groups
            if group.difference or group.baseline_count != group.candidate_count
        )

    def to_json(self) -> dict[str, Any]:
        groups = [vars(group) | {"difference": group.difference} for group in self.groups]
        return vars(self) | {"groups": groups}


def of(pair: Pair) -> Peaks | str:
    """What makes the difference between the peaks of a pair; or why that is not known."""
    for name, record in pair.sides:
        if record.allocations is None:
            reason = record.unavailable.get(
                "tensor_peak_bytes", "its allocations were not recorded"
            )
            return f"{name}: {reason}"
    sums: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    scopes: dict[tuple[str, str, str], Counter[str]] = {}
    lines: dict[tuple[str, str, str], Counter[str]] = {}
    for which, (_, record) in enumerate(pair.sides):
        assert record.allocations is not None
        for group in record.allocations.groups:
            key = _key(group)
            found = sums.setdefault(key, [(0, 0), (0, 0)])
            count, size = found[which]
            found[which] = count + group.count, size + group.bytes
            differences = scopes.setdefault(key, Counter())
            for scope in group.scopes:
                differences[scope.scope] += scope.bytes if which else -scope.bytes
        for line in record.allocations.lines:
            place = f"{line.file}:{line.line}" if line.file else ""
            for part in line.parts:
                differences = lines.setdefault(_key(part), Counter())
                differences[place] += part.bytes if which else -part.bytes
    groups = [
        Held(*key, *baseline, *candidate, _widest(scopes[key]), _widest(lines.get(key, {})))
        for key, (baseline, candidate) in sums.items()
    ]
    groups.sort(key=lambda group: (-abs(group.difference), -group.baseline_bytes, group.op))
    return Peaks(
        sum(group.baseline_bytes for group in groups),
        sum(group.candidate_bytes for group in groups),
        tuple(groups),
    )


def _key(group: Group | Part) -> tuple[str, str, str]:
    shape = group.shape
    spelled = "unknown" if shape is None else "x".join(map(str, shape)) or "scalar"
    return group.op, spelled, group.dtype


def _widest(differences: Mapping[str, int]) -> str:
    apart = {scope: abs(size) for scope, size in differences.items() if scope and size}
    return max(sorted(apart), key=apart.__getitem__, default="")
