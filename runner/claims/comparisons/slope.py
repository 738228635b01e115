"""`slope`: how much of a metric each unit of the size adds. Core: standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from runner.claims.expectation import CaseRecords, ExpectationResult, Finding, UnitExpectation
from runner.claims.readings import Reading


@dataclass(frozen=True, kw_only=True)
class SlopeExpectation(UnitExpectation):
    word: ClassVar[str] = "slope"
    needs_sizes: ClassVar[bool] = True
    slope: str

    def test(self, records: CaseRecords) -> ExpectationResult:
        read, units = self.read(records.run), self.compute_units(records.run)
        return ExpectationResult(self, read, (), tuple(self._judge_steps(records, read, units)))

    def _judge_steps(
        self, records: CaseRecords, read: Sequence[Reading], units: Sequence[float]
    ) -> Iterator[Finding]:
        """Yield a finding for each two neighbouring sizes; it speaks of the larger one."""
        for n, (before, after) in enumerate(pairwise(read), start=1):
            if before.value is None or after.value is None:
                yield self.judge_reading(n, before if before.value is None else after)
                continue
            interval = None
            if before.interval and after.interval:
                least = after.interval[0] - before.interval[1]
                interval = (least, after.interval[1] - before.interval[0])
                if self.is_range:  # the lowest against the lowest
                    ends = [b - a for a, b in zip(before.interval, after.interval, strict=True)]
                    interval = (min(ends), max(ends))
            step = (records.sizes[n] - records.sizes[n - 1]) * units[n - 1]
            yield self.judge_reading(n, Reading(after.value - before.value, interval).divide(step))

    def write_rule(self) -> str:
        what = f"what each unit of the size adds to {self.label}{self.write_unit()}"
        return f"{what} {self.write_bounds()}"

    def list_notes(self, result: ExpectationResult) -> list[str]:
        return [f"each unit of it adds {self.write_counted(result)}", *super().list_notes(result)]
