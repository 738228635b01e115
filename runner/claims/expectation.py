"""Expectations: the base of every comparison that a claim may name, and its result.

Core: standard library only. A comparison is one class in one file in `comparisons/`. All there is
of it is there: its keys in YAML (its fields), what it needs, its test, its sentence, its figures.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from runner.claims import readings
from runner.claims.readings import Reading, find_metric
from runner.config import Spec
from runner.errors import BadInput
from runner.records import Record


@dataclass(frozen=True)
class CaseRecords:
    """The records of a case, one a size; without sizes just one."""

    field: str
    """The field that the sizes are values of."""
    sizes: Sequence[float]
    run: Sequence[Record]
    against: Sequence[Record]


@dataclass(frozen=True)
class Finding:
    """One expectation at one size (growth: at all of them)."""

    covers: tuple[int, ...]
    """The numbers of the sizes that it speaks of."""
    holds: bool | None
    """None if that is unknown."""
    measured: float | None = None
    interval: tuple[float, float] | None = None
    why: str = ""
    """The reason why it is unknown; or in words what was found."""


@dataclass(frozen=True)
class ExpectationResult:
    """An expectation with everything that was read for it."""

    expectation: Expectation
    readings: tuple[Reading, ...]
    against: tuple[Reading, ...]
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool | None:
        """Return True if it holds at every size; None while that is unknown."""
        return combine_holds(finding.holds for finding in self.findings)


def combine_holds(holds: Iterable[bool | None]) -> bool | None:
    """Return True if all of them hold; None where what is unknown could still tell."""
    seen = set(holds)
    return False if False in seen else None if None in seen else True


@dataclass(frozen=True, kw_only=True)
class Expectation(ABC):
    """The base of every comparison: what it needs, how it is tested, its words."""

    word: ClassVar[str]
    """Names the comparison in YAML."""
    needs_sizes: ClassVar[bool] = False
    because: str | None = None

    @property
    def metric(self) -> str | None:
        """Return the metric that it looks at, if that is one."""
        return None

    @property
    def kinds(self) -> set[str]:
        """Return the kinds of trial that it rests on. Any tells how a cell ends; this one is
        quickly over."""
        return {"memory"}

    def check(self, where: str, *, sizes: bool, against: bool) -> None:
        """Raise `BadInput` where the file makes no sense: what types can't say."""
        if self.needs_sizes and not sizes:
            raise BadInput(f"{where}: needs sizes.", "Add sizes: {FIELD: [1, 2, 4]}.")

    def check_cell(self, spec: Spec) -> None:
        """Raise `BadInput` where it makes no sense for a cell."""
        return

    @abstractmethod
    def test(self, records: CaseRecords) -> ExpectationResult:
        """Return what the records say of it."""

    @abstractmethod
    def write_rule(self) -> str:
        """Return a sentence's worth of words: what is expected."""

    @abstractmethod
    def write_brief(self, result: ExpectationResult) -> str:
        """Return the figures that decide; the sizes follow."""

    def write_figures(self, result: ExpectationResult) -> str:
        """Return all figures that it rests on; the sizes follow."""
        return self.write_brief(result)

    def list_notes(self, result: ExpectationResult) -> list[str]:
        """Return sentences on what was made of the figures."""
        return []

    def list_series(self, result: ExpectationResult) -> list[tuple[str, Sequence[Reading]]]:
        """Return the names and figures that a picture over the sizes shows."""
        return []


@dataclass(frozen=True, kw_only=True)
class MetricExpectation(Expectation):
    """Looks at one metric, which stands beside the comparison's word."""

    @property
    def metric(self) -> str:
        return str(getattr(self, self.word))

    @property
    def metrics(self) -> dict[str, str]:
        """Return every metric that is read, by the key that names it."""
        return {self.word: self.metric}

    @property
    def label(self) -> str:
        return find_metric(self.metric).label

    @property
    def is_range(self) -> bool:
        """Return True if the intervals are what processes of a cell had, lowest and highest."""
        return all(find_metric(name).source != "timing" for name in self.metrics.values())

    @property
    def kinds(self) -> set[str]:
        sources = {find_metric(name).source for name in self.metrics.values()}
        return {"memory" if source == "either" else source for source in sources}

    def check(self, where: str, *, sizes: bool, against: bool) -> None:
        super().check(where, sizes=sizes, against=against)
        for key, name in self.metrics.items():
            readings.check_metric(name, f"{where}.{key}")

    def read(self, records: Sequence[Record]) -> tuple[Reading, ...]:
        return tuple(readings.read_metric(record, self.metric) for record in records)

    def write_brief(self, result: ExpectationResult) -> str:
        return f"{self.label} {join_values(write_values(self.metric, result.readings))}"

    def list_notes(self, result: ExpectationResult) -> list[str]:
        return list(dict.fromkeys(finding.why for finding in result.findings if finding.why))

    def list_series(self, result: ExpectationResult) -> list[tuple[str, Sequence[Reading]]]:
        return [("run", result.readings)]


@dataclass(frozen=True, kw_only=True)
class BoundedExpectation(MetricExpectation):
    """Holds within its thresholds."""

    at_least: float | None = None
    at_most: float | None = None

    def check(self, where: str, *, sizes: bool, against: bool) -> None:
        super().check(where, sizes=sizes, against=against)
        if self.at_least is None and self.at_most is None:
            raise BadInput(f"{where}: has no threshold.", "Write at_least: or at_most:, or both.")
        if self.because is None:
            raise BadInput(f"{where}: does not say why.", "Write because: why this threshold.")

    def judge_reading(self, size: int, reading: Reading) -> Finding:
        """Return what a reading says at a size.

        Its interval lies within the thresholds: holds; all of it outside: fails; else, or where
        there is none: unknown.
        """
        value, why = reading.value, reading.why
        if reading.interval is None:
            if value is not None:
                why = "one process does not show how far it can be trusted"
            return Finding((size,), None, value, why=why)
        least = -math.inf if self.at_least is None else self.at_least
        most = math.inf if self.at_most is None else self.at_most
        low, high = reading.interval
        if least <= low and high <= most:
            return Finding((size,), True, value, reading.interval)
        if high < least or low > most:
            return Finding((size,), False, value, reading.interval)
        if value is not None:
            why = f"from {low:.3g} to {high:.3g}, it may lie on either side of the threshold"
        return Finding((size,), None, value, reading.interval, why)

    def write_bounds(self) -> str:
        if self.at_least == self.at_most:
            return f"is {self.at_least:g}"
        bounds = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        bounds += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        return f"is {' and '.join(bounds)}"


@dataclass(frozen=True, kw_only=True)
class UnitExpectation(BoundedExpectation):
    """Counts its figures in units that each cell's own fields make."""

    unit: str | None = None

    def check_cell(self, spec: Spec) -> None:
        readings.compute_unit(self.unit, spec)

    def compute_units(self, records: Sequence[Record]) -> list[float]:
        return [readings.compute_unit(self.unit, record.spec) for record in records]

    def write_unit(self) -> str:
        """Return ` in units of ...`; nothing without one."""
        return f" in units of {readings.write_unit(self.unit)}" if self.unit else ""

    def write_counted(self, result: ExpectationResult) -> str:
        unit = f" x {readings.write_unit(self.unit)}" if self.unit else ""
        measured = [
            readings.write_bounded(finding.measured, finding.interval)
            for finding in result.findings
        ]
        return join_values(measured) + unit


def write_values(metric: str, values: Sequence[Reading]) -> list[str]:
    known = find_metric(metric)
    texts = []
    for reading in values:
        if reading.interval is None:
            texts.append(known.format(reading.value))
        elif reading.value is None:
            texts.append(f"at most {known.format(reading.interval[1])}")
        elif known.source == "timing":
            texts.append(known.format(reading.value))
        else:
            texts.append(known.format_range(*reading.interval))
    return texts


def join_values(values: Sequence[str]) -> str:
    """Return all of them; one, where they are the same."""
    return ", ".join(values if len(set(values)) > 1 else values[:1])
