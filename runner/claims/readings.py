"""A metric of a record, or a phase's figure, read in one way. Core: standard library only."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass

from runner.analysis import estimate, selection
from runner.config import Spec
from runner.errors import BadInput, suggest
from runner.metrics import METRICS, Metric, join_range
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
"""The figures of a phase: `build.tensor_live_bytes` is "live after build"."""


@dataclass(frozen=True)
class Reading:
    """A figure of one cell, with its interval where it has one; or why there is none, and then
    perhaps the bounds that it lies within."""

    value: float | None
    interval: tuple[float, float] | None = None
    why: str = ""

    def divide(self, unit: float) -> Reading:
        """Return the reading counted in units of that size."""
        interval = self.interval and (self.interval[0] / unit, self.interval[1] / unit)
        return Reading(None if self.value is None else self.value / unit, interval, self.why)


def find_metric(name: str) -> Metric:
    """Return a metric; or a phase's figure, as if it were one."""
    if name in METRICS:
        return METRICS[name]
    phase, _, figure = name.rpartition(".")
    known = _FIGURES[figure]
    return Metric(name, f"{known.label} {phase.replace('_', ' ')}", known.unit, known.source, "")


def check_metric(name: str, where: str) -> None:
    """Raise `BadInput` for what is neither a metric nor a phase's figure."""
    phase, _, figure = name.rpartition(".")
    if not phase and name not in METRICS:
        raise BadInput(f"{where}: {name!r} is not a metric.", suggest(name, METRICS))
    if phase and phase not in set(Phase):
        raise BadInput(
            f"{where}: {phase!r} is not a phase.", suggest(phase, [known.value for known in Phase])
        )
    if phase and figure not in _FIGURES:
        raise BadInput(f"{where}: {figure!r} is not a phase's figure.", suggest(figure, _FIGURES))


def read_metric(record: Record, name: str) -> Reading:
    """Return the figure of a record, or why there is none."""
    if not record.outcome.completed:
        return Reading(None, why=f"the cell ended {record.outcome.brief}")
    metric = find_metric(name)
    phase, _, figure = name.rpartition(".")
    if phase:
        values = [
            value
            for trial in record.trials
            if trial.outcome.completed and trial.kind == metric.source
            if (value := getattr(trial.figures(Phase(phase)), figure)) is not None
        ]
        if not values:
            return Reading(None, why=f"no {metric.source} trial has {name}")
        # As for a record's metrics: memory is a maximum, what comes from timing trials a median.
        if metric.source == "memory":
            return Reading(max(values), (min(values), max(values)))
        value = statistics.median(values)
        return Reading(value, (value, value))
    figure_or_none = record.metrics.get(name)
    if figure_or_none is None:
        why = record.unavailable.get(name, "does not apply")
        most = estimate.find_growth_bound(record.trials, name)
        bounds = None if most is None else (0.0, most)
        return Reading(None, bounds, f"{metric.label}: {why}")
    known = None if metric.source == "timing" else (figure_or_none, figure_or_none)
    return Reading(figure_or_none, record.intervals.get(name, known))


def compute_unit(unit: str | None, spec: Spec) -> float:
    """Return a product of fields and numbers, as in `4 * batch_size * scenario.size`, in a cell."""
    product = 1.0
    known = spec.fields
    for word in (unit or "1").split("*"):
        name = word.strip()
        number = known.get(name, name)
        if name not in known and re.fullmatch(r"\d+(\.\d+)?", name):
            number = float(name)
        if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
            numbers = [key for key, value in known.items() if type(value) in (int, float)]
            raise BadInput(
                f"unit: {name!r} is neither a number nor a field.", suggest(name, numbers)
            )
        product *= number
    return product


def write_unit(unit: str) -> str:
    """Return a unit as a person reads it."""
    return " · ".join(selection.shorten_field(word.strip()) for word in unit.split("*"))


def write_bounded(value: float | None, bounds: tuple[float, float] | None, sign: str = "") -> str:
    """Return a number; where only its bounds are known, the upper one."""
    if value is None and bounds:
        return f"at most {sign}{_write_number(bounds[1])}"
    return f"{sign}{_write_number(value)}"


def write_range(bounds: tuple[float, float], sign: str = "") -> str:
    """Return `x0.89 to x1.1`; one number where both read the same."""
    return join_range(*(f"{sign}{_write_number(bound)}" for bound in bounds))


def _write_number(value: float | None) -> str:
    if value is None:
        return "?"
    if math.isinf(value):
        return "∞"
    size = abs(value)
    if size and size < 0.01:
        return f"{value:.1g}"
    return f"{value:.0f}" if size >= 99.5 else f"{value:.3g}"
