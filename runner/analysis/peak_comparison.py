"""Compare what the two cells of a pair hold at their peaks. A view of records.

Core: standard library only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runner.allocations import Allocations, Group, LinePart
from runner.analysis.selection import Pair
from runner.metrics import TENSOR_GROWTH, TENSOR_PEAK

_Key = tuple[str, str, str]
"""An op, a shape as it is spelled, a dtype."""


@dataclass(frozen=True)
class PeakGroup:
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

    difference: int = field(init=False)
    """Candidate minus baseline, in bytes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "difference", self.candidate_bytes - self.baseline_bytes)


@dataclass(frozen=True)
class PeakComparison:
    """Both peaks, group by group, the largest difference first. Groups sum to the totals."""

    baseline_bytes: int
    candidate_bytes: int
    groups: tuple[PeakGroup, ...]

    @property
    def apart(self) -> tuple[PeakGroup, ...]:
        return tuple(
            group
            for group in self.groups
            if group.difference or group.baseline_count != group.candidate_count
        )


def compare_peaks(pair: Pair) -> PeakComparison | str:
    """Return what makes the difference between the peaks of a pair; or why that is not known."""
    for name, record in pair.sides:
        if record.allocations is None:
            reason = record.unavailable.get(TENSOR_PEAK, "its allocations were not recorded")
            return f"{name}: {reason}"
    sums: dict[_Key, list[tuple[int, int]]] = defaultdict(lambda: [(0, 0), (0, 0)])
    scopes: dict[_Key, Counter[str]] = defaultdict(Counter)
    lines: dict[_Key, Counter[str]] = defaultdict(Counter)
    for which, (_, record) in enumerate(pair.sides):
        assert record.allocations is not None
        sign = 1 if which else -1
        for group in record.allocations.groups:
            found = sums[_key(group)]
            count, size = found[which]
            found[which] = count + group.count, size + group.bytes
            for scope in group.scopes:
                scopes[_key(group)][scope.scope] += sign * scope.bytes
        for line in record.allocations.lines:
            place = f"{line.file}:{line.line}" if line.file else ""
            for part in line.parts:
                lines[_key(part)][place] += sign * part.bytes
    groups = [
        PeakGroup(*key, *baseline, *candidate, _widest(scopes[key]), _widest(lines[key]))
        for key, (baseline, candidate) in sums.items()
    ]
    groups.sort(key=lambda group: (-abs(group.difference), -group.baseline_bytes, group.op))
    return PeakComparison(
        sum(group.baseline_bytes for group in groups),
        sum(group.candidate_bytes for group in groups),
        tuple(groups),
    )


@dataclass(frozen=True)
class LineDifference:
    """A line of code that holds more in one cell of a pair than in the other."""

    file: str
    line: int
    code: str
    bytes: float
    """Of a growth, those of a step."""


def find_guilty_line(pair: Pair, metric: str) -> LineDifference | None:
    """Return the candidate's line that adds most to a peak or a growth; None where that is not
    known. A line is the same if its file and its text are: edits above it change its number."""
    counts = {TENSOR_PEAK: _count_peak_lines, TENSOR_GROWTH: _count_growing_lines}.get(metric)
    before, after = pair.baseline.allocations, pair.candidate.allocations
    if counts is None or before is None or after is None:
        return None
    known: dict[tuple[str, str], float] = defaultdict(float)
    for file, _, code, size in counts(before):
        known[file, code] -= size
    lines: dict[tuple[str, str], int] = {}
    for file, line, code, size in counts(after):
        known[file, code] += size
        lines.setdefault((file, code), line)
    guilty = max(lines, key=known.__getitem__, default=None)
    if guilty is None or known[guilty] <= 0:
        return None
    return LineDifference(guilty[0], lines[guilty], guilty[1], known[guilty])


_LineBytes = tuple[str, int, str, float]


def _count_peak_lines(allocations: Allocations) -> Iterator[_LineBytes]:
    for line in allocations.lines:
        if line.file is not None:
            yield line.file, line.line or 0, line.code or "", line.bytes


def _count_growing_lines(allocations: Allocations) -> Iterator[_LineBytes]:
    for leak in allocations.leaks or ():
        if leak.stack:
            frame = allocations.frames[leak.stack[-1]]
            yield frame.file, frame.line, frame.code, leak.bytes_per_step


def _key(group: Group | LinePart) -> _Key:
    shape = group.shape
    spelled = "unknown" if shape is None else "x".join(map(str, shape)) or "scalar"
    return group.op, spelled, group.dtype


def _widest(differences: Mapping[str, int]) -> str:
    apart = {scope: abs(size) for scope, size in differences.items() if scope and size}
    return max(sorted(apart), key=apart.__getitem__, default="")
