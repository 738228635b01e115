"""`growth`: how a metric follows the size, by the law of growth. Core: standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from runner.analysis import selection
from runner.analysis.law import find_law
from runner.analysis.tolerance import find_tolerance
from runner.claims.expectation import CaseRecords, ExpectationResult, Finding, MetricExpectation
from runner.claims.readings import find_metric

_WORDS = {
    "flat": "is flat",
    "grows": "grows",
    "linear": "grows linearly",
    "quadratic": "grows quadratically",
    "exponential": "grows exponentially",
}


@dataclass(frozen=True, kw_only=True)
class GrowthExpectation(MetricExpectation):
    word: ClassVar[str] = "growth"
    needs_sizes: ClassVar[bool] = True
    growth: str
    shape: Literal["flat", "grows", "linear", "quadratic", "exponential"]
    """A law; or `grows`, from each size to the next, whatever the law."""

    def test(self, records: CaseRecords) -> ExpectationResult:
        read, covers = self.read(records.run), tuple(range(len(records.sizes)))
        values = [reading.value for reading in read if reading.value is not None]
        if len(values) < len(read):
            why = next(reading.why for reading in read if reading.value is None)
            return ExpectationResult(self, read, (), (Finding(covers, None, why=why),))
        points = zip(records.sizes, values, strict=True)
        same = find_tolerance(find_metric(self.metric))
        if self.is_range:
            same = same.widen(reading.interval for reading in read)
        law = find_law(points, same)
        assert law is not None  # a claim has sizes enough
        holds = law.rises if self.shape == "grows" else law.shape == self.shape
        words = law.describe(selection.shorten_field(records.field))
        return ExpectationResult(self, read, (), (Finding(covers, holds, why=words),))

    def write_rule(self) -> str:
        return f"{self.label} {_WORDS[self.shape]}"
