"""Cells that differ in the seed alone are replicates: one cell, measured with several seeds. A view
of records; each cell keeps its own.

Core: standard library only. A pooled record has the trials of all its cells, so that a comparison
takes each of their processes as evidence. Of its figures those of memory are the highest, as a
program needs that much, and the others the median; an interval reaches from the lowest to the
highest.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from runner.metrics import METRICS, TENSOR_PEAK
from runner.records import Record


def identify_replicates(cell: Record) -> str:
    """Return the same for cells that differ in the seed alone, and for no others."""
    return replace(cell.spec, seed=0).cell


def group_replicates(cells: Iterable[Record]) -> list[list[Record]]:
    """Return the cells, those that differ in the seed alone together."""
    groups: dict[str, list[Record]] = {}
    for cell in cells:
        groups.setdefault(identify_replicates(cell), []).append(cell)
    return list(groups.values())


def pool_replicates(cells: Sequence[Record]) -> Record:
    """Return the one record that replicates make. Its figures are of those that completed, each
    known if all of them have it; where one did not complete, its outcome is that one's."""
    first = cells[0]
    if len(cells) == 1:
        return first
    completed = [cell for cell in cells if cell.outcome.completed] or cells
    metrics: dict[str, float | None] = {}
    unavailable: dict[str, str] = {}
    intervals: dict[str, tuple[float, float]] = {}
    for name in dict.fromkeys(name for cell in completed for name in cell.metrics):
        values: list[float] = []
        for cell in completed:
            value = cell.metrics.get(name)
            if value is None:
                reason = cell.unavailable.get(name, "does not apply")
                unavailable.setdefault(name, f"seed {cell.spec.seed}: {reason}")
            else:
                values.append(value)
        if name in unavailable:
            metrics[name] = None
            continue
        metrics[name] = statistics.median(values)
        ends = list(values)
        if METRICS[name].source == "memory":
            metrics[name] = max(values)
            # Of a peak an interval is what processes had, and no estimate.
            ends += [end for cell in completed for end in cell.intervals.get(name, ())]
        if min(ends) < max(ends):
            intervals[name] = (min(ends), max(ends))
    highest = max(completed, key=lambda cell: cell.metrics.get(TENSOR_PEAK) or 0)
    ended = [cell.outcome for cell in cells if not cell.outcome.completed]
    return replace(
        first,
        outcome=ended[0] if ended else first.outcome,
        metrics=metrics,
        unavailable=unavailable,
        intervals=intervals,
        trials=tuple(trial for cell in completed for trial in cell.trials),
        allocations=highest.allocations,
        fingerprint="+".join(sorted({cell.fingerprint for cell in completed})),
    )
