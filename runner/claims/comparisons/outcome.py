"""`outcome`: how the cell ends, and what TensorFlow says then. Core: standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from runner.claims.expectation import CaseRecords, Expectation, ExpectationResult, Finding
from runner.records import Status


@dataclass(frozen=True, kw_only=True)
class OutcomeExpectation(Expectation):
    word: ClassVar[str] = "outcome"
    outcome: Literal["completed", "failed", "out_of_memory", "timed_out", "killed"]
    says: str | None = None
    """Part of the reason."""

    def test(self, records: CaseRecords) -> ExpectationResult:
        findings = []
        for size, record in enumerate(records.run):
            outcome = record.outcome
            end = "completed" if outcome.completed else outcome.brief
            holds = None
            if outcome.status not in (Status.INTERRUPTED, Status.UNSUPPORTED):
                is_said = (self.says or "").lower() in (outcome.reason or "").lower()
                holds = outcome.status.value == self.outcome and is_said
            findings.append(Finding((size,), holds, why=end))
        return ExpectationResult(self, (), (), tuple(findings))

    def write_rule(self) -> str:
        says = f", saying {self.says!r}" if self.says else ""
        return f"ends {self.outcome.replace('_', ' ')}{says}"

    def write_brief(self, result: ExpectationResult) -> str:
        texts = dict.fromkeys(finding.why for finding in result.findings)
        return "; ".join(text if len(text) <= 110 else f"{text[:107]}..." for text in texts)
