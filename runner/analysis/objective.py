"""Define the aim of a search: metrics, each in its better direction, within limits.

    search.objectives=[tensor_peak_bytes,examples_per_second]    the front of both
    search.limits.examples_per_second=1000                       no slower than that

Which direction is the better one, the table of metrics says (`metrics.py`): a limit is a floor for
what should be large, and a ceiling for all else. Core: standard library only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.cell import read_plan
from runner.config import Measure
from runner.errors import BadInput, suggest
from runner.metrics import METRICS, format_metric, parse_bytes
from runner.records import Record

WORST = 1e18
"""What a sweeper is told of a cell that has no figures, or is outside the limits: worse than any
that has, and finite, as samplers reckon with it."""


@dataclass(frozen=True)
class Objective:
    """The objective of a whole search; nothing is searched for without metrics."""

    metrics: tuple[str, ...]
    limits: Mapping[str, float]

    @staticmethod
    def read(said: Any) -> Objective:
        """Return the objective that the configuration's `search` gives; raise `BadInput` where it
        is none."""
        if not isinstance(said, Mapping):
            raise BadInput("search: is not a mapping.", "Say search.objectives=[METRIC,...].")
        for name in said:
            if name not in ("objectives", "limits"):
                known = suggest(str(name), ("objectives", "limits"))
                raise BadInput(f"search.{name}: there is no such field.", known)
        metrics, limits = said.get("objectives") or [], said.get("limits") or {}
        metrics = [metrics] if isinstance(metrics, str) else metrics
        if not isinstance(metrics, Sequence):
            raise BadInput(f"search.objectives: {metrics!r} is not a list.", _EXAMPLE)
        if not isinstance(limits, Mapping):
            raise BadInput(
                f"search.limits: {limits!r} is not a mapping.", "Say search.limits.METRIC=NUMBER."
            )
        for name in metrics:
            _check_metric(name, "search.objectives")
        if len(set(metrics)) < len(metrics):
            raise BadInput("search.objectives: a metric is named twice.", "Keep one.")
        return Objective(
            tuple(metrics),
            {str(name): _read_limit(str(name), value) for name, value in limits.items()},
        )

    @property
    def is_set(self) -> bool:
        return bool(self.metrics or self.limits)

    @property
    def names(self) -> tuple[str, ...]:
        """Return every metric that decides."""
        return tuple(dict.fromkeys((*self.metrics, *self.limits)))

    @property
    def words(self) -> str:
        """Return `smallest tensor_peak_bytes and largest ..., with step_seconds up to 1 ms`."""
        best = [
            f"{'smallest' if _is_better_small(name) else 'largest'} {name}" for name in self.metrics
        ]
        bounds = [
            f"{name} {'up to' if _is_better_small(name) else 'from'} {format_metric(name, limit)}"
            for name, limit in self.limits.items()
        ]
        return " and ".join(best) + (f", with {' and '.join(bounds)}" if bounds else "")

    def check(self, measure: Measure) -> None:
        """Raise `BadInput` for what can't be had: a search would look for it in vain."""
        if not self.metrics:
            raise BadInput("search.objectives: a search needs one.", _EXAMPLE)
        for name in self.names:
            kind = METRICS[name].source
            if kind != "either" and not getattr(measure, f"{kind}_processes"):
                raise BadInput(
                    f"search: {name} comes from {kind} trials, and there are none.",
                    f"Say measure.{kind}_processes=1, or search for something else.",
                )

    def get_values(self, record: Record) -> tuple[float, ...] | None:
        """Return the metrics so that smaller is better: those that should be large are negative.

        None where one is not known, or the cell is outside the limits.
        """
        found = [record.metrics.get(name) for name in self.names]
        if not record.outcome.completed or None in found or self._measure_excess(record) > 0:
            return None
        return tuple(_orient(name, float(record.metrics[name] or 0.0)) for name in self.metrics)

    def score(self, record: Record) -> list[float]:
        """Return the metrics for a sampler, which wants numbers: those outside the limits are the
        worse the further they are off, and last comes what has no figures at all."""
        if (values := self.get_values(record)) is not None:
            return list(values)
        known = record.outcome.completed and all(
            record.metrics.get(name) is not None for name in self.names
        )
        excess = self._measure_excess(record) if known else math.inf
        share = excess / (1 + excess) if math.isfinite(excess) else 2.0
        return [WORST * (1 + share)] * len(self.metrics)

    def find_front(self, records: Sequence[Record]) -> list[Record]:
        """Return the cells that no other is as good as in every metric, and better in one; in the
        order of the first metric."""
        known = [
            (values, each) for each in records if (values := self.get_values(each)) is not None
        ]
        best = [
            (values, each)
            for values, each in known
            if not any(
                other != values and all(a <= b for a, b in zip(other, values, strict=True))
                for other, _ in known
            )
        ]
        return [each for _, each in sorted(best, key=lambda item: item[0])]

    def explain_exclusion(self, record: Record) -> str:
        """Return why a cell can't be on the front; empty where it can."""
        if not record.outcome.completed:
            return record.outcome.words
        for name in self.names:
            if record.metrics.get(name) is None:
                return f"{name} is unknown: {record.unavailable.get(name, 'it does not apply')}"
        off = [name for name in self.limits if self._measure_excess(record, name) > 0]
        return f"outside the limit of {off[0]}" if off else ""

    def _measure_excess(self, record: Record, *names: str) -> float:
        """Return by how much a cell is outside of all limits, or of these, as a share of each."""
        return sum(
            max(
                0.0,
                _orient(name, record.metrics.get(name) or 0.0) - _orient(name, self.limits[name]),
            )
            / (abs(self.limits[name]) or 1.0)
            for name in names or self.limits
        )


_EXAMPLE = "Say search.objectives=[tensor_peak_bytes,examples_per_second], or one of them."


def read_objective(folder: Path) -> Objective | None:
    """Return the objective of the sweep in `folder`; None where it did not search."""
    plan = read_plan(folder)
    with suppress(BadInput):
        return Objective.read(plan.search.objective) if plan and plan.search else None
    return None


def _check_metric(name: Any, where: str) -> None:
    if name not in METRICS:
        raise BadInput(
            f"{where}: there is no metric {json.dumps(name)}.", suggest(str(name), METRICS)
        )


def _read_limit(name: str, value: Any) -> float:
    _check_metric(name, "search.limits")
    if isinstance(value, str):
        value = parse_bytes(value) if METRICS[name].is_memory else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadInput(
            f"search.limits.{name}: is not an amount.",
            "Write a number, or a size such as 120MB where it is one of bytes.",
        )
    return float(value)


def _is_better_small(name: str) -> bool:
    return METRICS[name].smaller_is_better


def _orient(name: str, value: float) -> float:
    return value if _is_better_small(name) else -value
