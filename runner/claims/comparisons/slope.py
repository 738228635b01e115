"""`slope`: how much of a metric each unit of the size adds.

Core: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from runner.claims.expectation import Cells, Finding, InUnits, Tested
from runner.claims.readings import Reading


@dataclass(frozen=True, kw_only=True)
class Slope(InUnits):
    word: ClassVar[str] = "slope"
    needs_sizes: ClassVar[bool] = True
    slope: str

    def test(self, cells: Cells) -> Tested:
        read = self.read(cells.run)
        return Tested(self, read, (), tuple(self._found(cells, read, self.units(cells.run))))

    def _found(
        self, cells: Cells, read: Sequence[Reading], units: Sequence[float]
    ) -> Iterator[Finding]:
        """Between neighbouring sizes; each speaks of the larger one."""
        for n, (before, after) in enumerate(pairwise(read), start=1):
            if before.value is None or after.value is None:
                yield self.within(n, before if before.value is None else after)
                continue
            interval = None
            if before.interval and after.interval:
                least = after.interval[0] - before.interval[1]
                interval = (least, after.interval[1] - before.interval[0])
            step = (cells.sizes[n] - cells.sizes[n - 1]) * units[n - 1]
            yield self.within(n, Reading(after.value - before.value, interval).over(step))

    def rule(self) -> str:
        what = f"what each unit of the size adds to {self.label}{self.in_units()}"
        return f"{what} {self.bounds()}"

    def made(self, tested: Tested) -> list[str]:
        return [f"each unit of it adds {self.counted(tested)}", *super().made(tested)]
