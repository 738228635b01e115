"""`value`: a metric as it is, or in a unit that is a product of fields and numbers.

Core: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from runner.claims.expectation import Cells, InUnits, Tested


@dataclass(frozen=True, kw_only=True)
class Value(InUnits):
    word: ClassVar[str] = "value"
    value: str

    def test(self, cells: Cells) -> Tested:
        read = self.read(cells.run)
        counted = zip(read, self.units(cells.run), strict=True)
        findings = (self.within(n, each.over(unit)) for n, (each, unit) in enumerate(counted))
        return Tested(self, read, (), tuple(findings))

    def rule(self) -> str:
        return f"{self.label}{self.in_units()} {self.bounds()}"

    def made(self, tested: Tested) -> list[str]:
        in_units = [f"that is {self.counted(tested)}"] if self.unit else []
        return [*in_units, *super().made(tested)]
