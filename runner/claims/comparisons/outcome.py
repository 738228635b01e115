"""`outcome`: how the cell ends, and what TensorFlow says then.

Core: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from runner.claims.expectation import Cells, Expectation, Finding, Tested
from runner.records import Record, Status


@dataclass(frozen=True, kw_only=True)
class Outcome(Expectation):
    word: ClassVar[str] = "outcome"
    outcome: Literal["completed", "failed", "out_of_memory", "timed_out", "killed"]
    says: str | None = None
    """Part of the reason."""

    def test(self, cells: Cells) -> Tested:
        return Tested(self, (), (), tuple(self._end(n, each) for n, each in enumerate(cells.run)))

    def _end(self, size: int, record: Record) -> Finding:
        outcome = record.outcome
        told = "completed" if outcome.completed else record.outcome.brief
        if outcome.status in (Status.INTERRUPTED, Status.UNSUPPORTED):
            return Finding((size,), None, why=told)
        said = self.says is None or self.says.lower() in (outcome.reason or "").lower()
        return Finding((size,), outcome.status.value == self.outcome and said, why=told)

    def rule(self) -> str:
        says = f", saying {self.says!r}" if self.says else ""
        return f"ends {self.outcome.replace('_', ' ')}{says}"

    def brief(self, tested: Tested) -> str:
        texts = dict.fromkeys(finding.why for finding in tested.findings)
        return "; ".join(text if len(text) <= 110 else f"{text[:107]}..." for text in texts)
