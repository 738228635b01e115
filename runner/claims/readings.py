"""What a record says on a metric, or on a phase's figure: read once, for every comparison.

Core: standard library only.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.errors import BadInput, nearest
from runner.judging import estimate, selection
from runner.metrics import METRICS, Metric
from runner.records import Phase, Record

_FIGURES = {
    figure.name: figure
    for figure in (
        Metric("tensor_begin_bytes", "begin in", "bytes", "memory", ""),
        Metric("tensor_peak_bytes", "peak in", "bytes", "memory", ""),
        Metric("tensor_live_bytes", "live after", "bytes", "memory", ""),
        Metric("allocated_bytes", "allocated in", "bytes", "memory", ""),
        Metric("allocations", "allocations in", "count", "memory", ""),
        Metric("seconds", "seconds in", "seconds", "timing", ""),
        Metric("host_bytes", "host in", "bytes", "timing", ""),
        Metric("host_peak_bytes", "host peak in", "bytes", "timing", ""),
    )
}
"""What a phase of a trial tells: `build.tensor_live_bytes` is "live after build"."""


@dataclass(frozen=True)
class Reading:
    """A figure of one cell, with its interval where it has one; or why there is none, and then
    perhaps the bounds that it lies within."""

    value: float | None
    interval: tuple[float, float] | None = None
    why: str = ""

    def over(self, unit: float) -> Reading:
        interval = self.interval and (self.interval[0] / unit, self.interval[1] / unit)
        return Reading(None if self.value is None else self.value / unit, interval, self.why)


def measure(name: str) -> Metric:
    """A metric; or a phase's figure, as if it were one."""
    if name in METRICS:
        return METRICS[name]
    phase, _, figure = name.rpartition(".")
    known = _FIGURES[figure]
    return Metric(name, f"{known.label} {phase.replace('_', ' ')}", known.unit, known.source, "")


def check(name: str, where: str) -> None:
    phase, _, figure = name.rpartition(".")
    if not phase and name not in METRICS:
        raise BadInput(f"{where}: {name!r} is not a metric.", nearest(name, METRICS))
    if phase and phase not in set(Phase):
        raise BadInput(
            f"{where}: {phase!r} is not a phase.", nearest(phase, [each.value for each in Phase])
        )
    if phase and figure not in _FIGURES:
        raise BadInput(f"{where}: {figure!r} is not a phase's figure.", nearest(figure, _FIGURES))


def read(record: Record, name: str) -> Reading:
    if not record.outcome.completed:
        return Reading(None, why=f"the cell ended {record.outcome.brief}")
    metric = measure(name)
    phase, _, figure = name.rpartition(".")
    if phase:
        values = [
            value
            for trial in record.trials
            if trial.outcome.completed and trial.kind == metric.source
            if (value := trial.phases.get(phase, {}).get(figure)) is not None
        ]
        if not values:
            return Reading(None, why=f"no {metric.source} trial told {name}")
        # As for a record's metrics: memory is a maximum, what comes from timing trials a median.
        value = max(values) if metric.source == "memory" else statistics.median(values)
        return Reading(value, (value, value))
    value_or_none = record.metrics.get(name)
    if value_or_none is None:
        why = record.unavailable.get(name, "does not apply")
        most = estimate.growth_at_most(record.trials, name)
        bounds = None if most is None else (0.0, most)
        return Reading(None, bounds, f"{metric.label}: {why}")
    if metric.source == "timing":
        return Reading(value_or_none, record.intervals.get(name))
    return Reading(value_or_none, (value_or_none, value_or_none))


def unit_of(unit: str | None, spec: Mapping[str, Any]) -> float:
    """A product of fields and numbers, as in `4 * batch_size * scenario.size`, in a cell."""
    product = 1.0
    known = selection.fields(spec)
    for word in (unit or "1").split("*"):
        name = word.strip()
        number = known.get(name, name)
        if name not in known and re.fullmatch(r"\d+(\.\d+)?", name):
            number = float(name)
        if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
            numbers = [key for key, value in known.items() if type(value) in (int, float)]
            raise BadInput(
                f"unit: {name!r} is neither a number nor a field.", nearest(name, numbers)
            )
        product *= number
    return product


# For people.


def pretty(unit: str) -> str:
    return " · ".join(selection.short(word.strip()) for word in unit.split("*"))


def bounded(value: float | None, bounds: tuple[float, float] | None, sign: str = "") -> str:
    """A number; where only its bounds are known, the upper one."""
    if value is None and bounds:
        return f"at most {sign}{number(bounds[1])}"
    return f"{sign}{number(value)}"


def number(value: float | None) -> str:
    if value is None:
        return "?"
    if math.isinf(value):
        return "∞"
    size = abs(value)
    if size and size < 0.01:
        return f"{value:.1g}"
    return f"{value:.0f}" if size >= 99.5 else f"{value:.3g}"
