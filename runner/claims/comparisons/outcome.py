"""`outcome`: how the cell ends, and what TensorFlow says then.

Core: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from runner.claims.expectation import CaseRecords, Expectation, ExpectationResult, Finding
from runner.records import Record, Status


@dataclass(frozen=True, kw_only=True)
class OutcomeExpectation(Expectation):
    """Holds the end of each cell against the one that is named."""

    word: ClassVar[str] = "outcome"
    outcome: Literal["completed", "failed", "out_of_memory", "timed_out", "killed"]
    says: str | None = None
    """Part of the reason."""

    def test(self, records: CaseRecords) -> ExpectationResult:
        return ExpectationResult(
            self, (), (), tuple(self._judge_end(n, each) for n, each in enumerate(records.run))
        )

    def _judge_end(self, size: int, record: Record) -> Finding:
        outcome = record.outcome
        end = "completed" if outcome.completed else outcome.brief
        if outcome.status in (Status.INTERRUPTED, Status.UNSUPPORTED):
            return Finding((size,), None, why=end)
        is_said = self.says is None or self.says.lower() in (outcome.reason or "").lower()
        return Finding((size,), outcome.status.value == self.outcome and is_said, why=end)

    def write_rule(self) -> str:
        says = f", saying {self.says!r}" if self.says else ""
        return f"ends {self.outcome.replace('_', ' ')}{says}"

    def write_brief(self, result: ExpectationResult) -> str:
        texts = dict.fromkeys(finding.why for finding in result.findings)
        return "; ".join(text if len(text) <= 110 else f"{text[:107]}..." for text in texts)
