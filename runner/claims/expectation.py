"""What a claim expects of a case, and what came of it: the base of every comparison.

Core: standard library only. A comparison is one class in one file in `comparisons/`. All there is
of it is there: its keys in YAML (its fields), what it needs, its test, its sentence, its figures.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from runner.claims import readings
from runner.claims.readings import Reading, measure
from runner.errors import BadInput
from runner.records import Record


@dataclass(frozen=True)
class Cells:
    """The records of a case, one a size; without sizes just one."""

    field: str
    """What the sizes are values of."""
    sizes: Sequence[float]
    run: Sequence[Record]
    against: Sequence[Record]


@dataclass(frozen=True)
class Finding:
    """One expectation at one size (growth: at all of them)."""

    covers: tuple[int, ...]
    """Which of the case's sizes it speaks of."""
    holds: bool | None
    measured: float | None = None
    interval: tuple[float, float] | None = None
    why: str = ""
    """Why it is unknown; or in words what was found."""


@dataclass(frozen=True)
class Tested:
    """An expectation with everything that was read for it."""

    expectation: Expectation
    readings: tuple[Reading, ...]
    against: tuple[Reading, ...]
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool | None:
        return together(finding.holds for finding in self.findings)


def together(holds: Iterable[bool | None]) -> bool | None:
    """Whether all of them hold; None where what is unknown could still tell."""
    seen = set(holds)
    return False if False in seen else None if None in seen else True


@dataclass(frozen=True, kw_only=True)
class Expectation(ABC):
    word: ClassVar[str]
    """Names the comparison in YAML."""
    needs_sizes: ClassVar[bool] = False
    because: str | None = None

    @property
    def metric(self) -> str | None:
        """What it looks at, if that is one metric."""
        return None

    @property
    def kinds(self) -> set[str]:
        """The trials that it rests on. Any tells how a cell ends; this one is quickly over."""
        return {"memory"}

    def check(self, where: str, *, sizes: bool, against: bool) -> None:
        """Raises where the file makes no sense: what types can't say."""
        if self.needs_sizes and not sizes:
            raise BadInput(f"{where}: needs sizes.", "Add sizes: {FIELD: [1, 2, 4]}.")

    def check_cell(self, spec: Mapping[str, Any]) -> None:
        """Raises where it makes no sense for a cell."""
        return

    @abstractmethod
    def test(self, cells: Cells) -> Tested: ...

    @abstractmethod
    def rule(self) -> str:
        """What is expected, in a sentence's worth of words."""

    @abstractmethod
    def brief(self, tested: Tested) -> str:
        """The figures that decide; the sizes follow."""

    def whole(self, tested: Tested) -> str:
        """All figures that it rests on; the sizes follow."""
        return self.brief(tested)

    def made(self, tested: Tested) -> list[str]:
        """What was made of the figures."""
        return []

    def series(self, tested: Tested) -> list[tuple[str, Sequence[Reading]]]:
        """What a picture over the sizes shows: names and figures."""
        return []


@dataclass(frozen=True, kw_only=True)
class OfMetric(Expectation):
    """Looks at one metric, which stands beside the comparison's word."""

    @property
    def metric(self) -> str:
        return str(getattr(self, self.word))

    @property
    def metrics(self) -> dict[str, str]:
        """Every metric that is read, by the key that names it."""
        return {self.word: self.metric}

    @property
    def label(self) -> str:
        return measure(self.metric).label

    @property
    def kinds(self) -> set[str]:
        sources = {measure(name).source for name in self.metrics.values()}
        return {"memory" if source == "either" else source for source in sources}

    def check(self, where: str, *, sizes: bool, against: bool) -> None:
        super().check(where, sizes=sizes, against=against)
        for key, name in self.metrics.items():
            readings.check(name, f"{where}.{key}")

    def read(self, records: Sequence[Record]) -> tuple[Reading, ...]:
        return tuple(readings.read(record, self.metric) for record in records)

    def brief(self, tested: Tested) -> str:
        return f"{self.label} {listed(shown(self.metric, tested.readings))}"

    def made(self, tested: Tested) -> list[str]:
        return list(dict.fromkeys(each.why for each in tested.findings if each.why))

    def series(self, tested: Tested) -> list[tuple[str, Sequence[Reading]]]:
        return [("run", tested.readings)]


@dataclass(frozen=True, kw_only=True)
class Bounded(OfMetric):
    """Holds within its thresholds."""

    at_least: float | None = None
    at_most: float | None = None

    def check(self, where: str, *, sizes: bool, against: bool) -> None:
        super().check(where, sizes=sizes, against=against)
        if self.at_least is None and self.at_most is None:
            raise BadInput(f"{where}: has no threshold.", "Write at_least: or at_most:, or both.")
        if self.because is None:
            raise BadInput(f"{where}: does not say why.", "Write because: why this threshold.")

    def within(self, size: int, reading: Reading) -> Finding:
        """Whether the whole interval lies within the thresholds, or all of it outside."""
        covers = (size,)
        if reading.interval is None:
            if reading.value is None:
                return Finding(covers, None, why=reading.why)
            why = "from one process there is no telling how far it can be trusted"
            return Finding(covers, None, reading.value, why=why)
        least = -math.inf if self.at_least is None else self.at_least
        most = math.inf if self.at_most is None else self.at_most
        low, high = reading.interval
        if least <= low and high <= most:
            return Finding(covers, True, reading.value, reading.interval)
        if high < least or low > most:
            return Finding(covers, False, reading.value, reading.interval)
        why = (
            reading.why
            if reading.value is None
            else (f"from {low:.3g} to {high:.3g}, it may lie on either side of the threshold")
        )
        return Finding(covers, None, reading.value, reading.interval, why)

    def bounds(self) -> str:
        if self.at_least == self.at_most:
            return f"is {self.at_least:g}"
        bounds = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        bounds += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        return f"is {' and '.join(bounds)}"


@dataclass(frozen=True, kw_only=True)
class InUnits(Bounded):
    """Its figures are counted in units that each cell's own fields make."""

    unit: str | None = None

    def check_cell(self, spec: Mapping[str, Any]) -> None:
        readings.unit_of(self.unit, spec)

    def units(self, records: Sequence[Record]) -> list[float]:
        return [readings.unit_of(self.unit, record.spec) for record in records]

    def in_units(self) -> str:
        return f" in units of {readings.pretty(self.unit)}" if self.unit else ""

    def counted(self, tested: Tested) -> str:
        """The figures in units."""
        unit = f" x {readings.pretty(self.unit)}" if self.unit else ""
        found = [readings.bounded(each.measured, each.interval) for each in tested.findings]
        return listed(found) + unit


def shown(metric: str, read: Sequence[Reading]) -> list[str]:
    """Each value with its unit."""
    readable = measure(metric).readable
    return [
        f"at most {readable(each.interval[1])}"
        if each.value is None and each.interval
        else readable(each.value)
        for each in read
    ]


def listed(values: Sequence[str]) -> str:
    """All of them; one, where they are the same."""
    return ", ".join(values if len(set(values)) > 1 else values[:1])
