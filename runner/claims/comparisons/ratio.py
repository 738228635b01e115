"""`ratio`: a metric of `run` over the same, or another, of `against`.

Core: standard library only (and NumPy where times are compared).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from runner.claims import readings
from runner.claims.expectation import Bounded, Cells, Tested, listed, shown
from runner.claims.readings import Reading, measure
from runner.errors import BadInput
from runner.judging import comparison, selection
from runner.metrics import METRICS
from runner.records import Record


@dataclass(frozen=True, kw_only=True)
class Ratio(Bounded):
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

    def test(self, cells: Cells) -> Tested:
        ours = self.read(cells.run)
        theirs = tuple(readings.read(record, self._lower) for record in cells.against)
        findings = tuple(
            self.within(n, self._quotient(ours[n], theirs[n], cells.run[n], cells.against[n]))
            for n in range(len(ours))
        )
        return Tested(self, ours, theirs, findings)

    def _quotient(self, one: Reading, other: Reading, run: Record, against: Record) -> Reading:
        if one.value is None and one.interval is None:
            return one
        if other.value is None:
            return other
        if self.to is None and self.metric in METRICS and METRICS[self.metric].is_time:
            pair = selection.Pair(against, run, "against", "run")
            (row, *_) = comparison.compare([pair], [self.metric]).rows
            if row.ratio is None or row.interval is None:
                return Reading(None, why=row.reason or "one process can't tell")
            return Reading(row.ratio, row.interval)
        value = None if one.value is None else _over(one.value, other.value)
        if one.interval is None or other.interval is None:
            return Reading(value, why=one.why)
        # Bytes are not below 0; where an interval is, there is just no telling how small they are.
        (one_low, one_high), (other_low, other_high) = (
            (max(0.0, low), max(0.0, high)) for low, high in (one.interval, other.interval)
        )
        bounds = (_over(one_low, other_high), _over(one_high, other_low))
        return Reading(value, bounds, one.why)

    def rule(self) -> str:
        over = measure(self.to).label if self.to else "that of the other"
        return f"{self.label} over {over} {self.bounds()}"

    def brief(self, tested: Tested) -> str:
        return f"{self.label} {listed(self._ratios(tested))}"

    def whole(self, tested: Tested) -> str:
        sides = zip(
            self._ratios(tested), shown(self.metric, tested.readings),
            shown(self._lower, tested.against), strict=True,
        )  # fmt: skip
        return f"{self.label} {', '.join(f'{x} ({one} : {other})' for x, one, other in sides)}"

    def series(self, tested: Tested) -> list[tuple[str, Sequence[Reading]]]:
        return [("run", tested.readings), ("against", tested.against)]

    def _ratios(self, tested: Tested) -> list[str]:
        return [readings.bounded(each.measured, each.interval, "x") for each in tested.findings]


def _over(one: float, other: float) -> float:
    """Nothing over nothing is the same."""
    if one == other:
        return 1.0
    return one / other if other else math.inf
