"""`value`: a metric as it is, or in a unit that is a product of fields and numbers.

Core: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from runner.claims.expectation import CaseRecords, ExpectationResult, UnitExpectation


@dataclass(frozen=True, kw_only=True)
class ValueExpectation(UnitExpectation):
    word: ClassVar[str] = "value"
    value: str

    def test(self, records: CaseRecords) -> ExpectationResult:
        read = self.read(records.run)
        counted = zip(read, self.compute_units(records.run), strict=True)
        findings = (
            self.judge_reading(n, reading.divide(unit)) for n, (reading, unit) in enumerate(counted)
        )
        return ExpectationResult(self, read, (), tuple(findings))

    def write_rule(self) -> str:
        return f"{self.label}{self.write_unit()} {self.write_bounds()}"

    def list_notes(self, result: ExpectationResult) -> list[str]:
        in_units = [f"that is {self.write_counted(result)}"] if self.unit else []
        return [*in_units, *super().list_notes(result)]
