"""`ratio`: a metric of `run` over the same, or another, of `against`.

Core: standard library only (and NumPy where times are compared).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from runner.analysis import comparison, selection
from runner.claims import readings
from runner.claims.expectation import (
    BoundedExpectation,
    CaseRecords,
    ExpectationResult,
    join_values,
    write_values,
)
from runner.claims.readings import Reading, find_metric
from runner.errors import BadInput
from runner.metrics import METRICS
from runner.records import Record


@dataclass(frozen=True, kw_only=True)
class RatioExpectation(BoundedExpectation):
    """Holds the metric of `run` against that of `against`, or against another of `run`."""

    word: ClassVar[str] = "ratio"
    ratio: str
    to: str | None = None
    """Another metric for the lower side of the fraction."""

    @property
    def metrics(self) -> dict[str, str]:
        return {**super().metrics, **({"to": self.to} if self.to else {})}

    @property
    def _lower(self) -> str:
        return self.to or self.metric

    def check(self, where: str, *, sizes: bool, against: bool) -> None:
        super().check(where, sizes=sizes, against=against)
        if not against and self.to is None:
            raise BadInput(
                f"{where}: a ratio to what?",
                "Add `against` to the case, or `to: METRIC` for another metric of the same cell.",
            )

    def test(self, records: CaseRecords) -> ExpectationResult:
        ours = self.read(records.run)
        theirs = tuple(readings.read_metric(record, self._lower) for record in records.against)
        ratios = map(self._compute_ratio, ours, theirs, records.run, records.against)
        findings = tuple(self.judge_reading(n, ratio) for n, ratio in enumerate(ratios))
        return ExpectationResult(self, ours, theirs, findings)

    def _compute_ratio(self, one: Reading, other: Reading, run: Record, against: Record) -> Reading:
        if one.value is None and one.interval is None:
            return one
        if other.value is None:
            return other
        if self.to is None and self.metric in METRICS and METRICS[self.metric].is_time:
            pair = selection.Pair(against, run, "against", "run")
            (row, *_) = comparison.compare([pair], [self.metric]).rows
            if row.ratio is None or row.interval is None:
                return Reading(None, why=row.reason or "one process is not enough")
            return Reading(row.ratio, row.interval)
        value = None if one.value is None else _divide(one.value, other.value)
        if one.interval is None or other.interval is None:
            return Reading(value, why=one.why)
        # Bytes are not below 0; where an interval is, there is just no telling how small they are.
        (one_low, one_high), (other_low, other_high) = (
            (max(0.0, low), max(0.0, high)) for low, high in (one.interval, other.interval)
        )
        if self.is_range:  # the lowest against the lowest, as `compare` judges what varies
            first, last = _divide(one_low, other_low), _divide(one_high, other_high)
            return Reading(value, (min(first, last), max(first, last)), one.why)
        bounds = (_divide(one_low, other_high), _divide(one_high, other_low))
        return Reading(value, bounds, one.why)

    def write_rule(self) -> str:
        over = find_metric(self.to).label if self.to else "that of the other"
        return f"{self.label} over {over} {self.write_bounds()}"

    def write_brief(self, result: ExpectationResult) -> str:
        return f"{self.label} {join_values(self._write_ratios(result))}"

    def write_figures(self, result: ExpectationResult) -> str:
        sides = zip(
            self._write_ratios(result), write_values(self.metric, result.readings),
            write_values(self._lower, result.against), strict=True,
        )  # fmt: skip
        return f"{self.label} {', '.join(f'{x} ({one} : {other})' for x, one, other in sides)}"

    def list_series(self, result: ExpectationResult) -> list[tuple[str, Sequence[Reading]]]:
        return [("run", result.readings), ("against", result.against)]

    def _write_ratios(self, result: ExpectationResult) -> list[str]:
        return [
            readings.write_range(finding.interval, "x")
            if self.is_range and finding.interval and finding.measured is not None
            else readings.write_bounded(finding.measured, finding.interval, "x")
            for finding in result.findings
        ]


def _divide(one: float, other: float) -> float:
    """Return the ratio; of nothing over nothing it is 1."""
    if one == other:
        return 1.0
    return one / other if other else math.inf
