"""`growth`: how a metric follows the size, by the law of growth.

Core: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from runner.claims.expectation import Cells, Finding, OfMetric, Tested
from runner.claims.readings import measure
from runner.judging import selection
from runner.judging.law import law
from runner.judging.tolerance import tolerance

_SAID = {
    "flat": "is flat",
    "grows": "grows",
    "linear": "grows linearly",
    "quadratic": "grows quadratically",
    "exponential": "grows exponentially",
}


@dataclass(frozen=True, kw_only=True)
class Growth(OfMetric):
    word: ClassVar[str] = "growth"
    needs_sizes: ClassVar[bool] = True
    growth: str
    shape: Literal["flat", "grows", "linear", "quadratic", "exponential"]
    """A law; or `grows`, from each size to the next, whatever the law."""

    def test(self, cells: Cells) -> Tested:
        read, covers = self.read(cells.run), tuple(range(len(cells.sizes)))
        values = [each.value for each in read if each.value is not None]
        if len(values) < len(read):
            why = next(each.why for each in read if each.value is None)
            return Tested(self, read, (), (Finding(covers, None, why=why),))
        points = zip(cells.sizes, values, strict=True)
        found = law(points, tolerance(measure(self.metric)))
        assert found is not None  # a claim has sizes enough
        holds = found.rises if self.shape == "grows" else found.shape == self.shape
        words = found.words(selection.short(cells.field))
        return Tested(self, read, (), (Finding(covers, holds, why=words),))

    def rule(self) -> str:
        return f"{self.label} {_SAID[self.shape]}"
