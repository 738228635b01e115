"""A claim as data, and the verdict that follows from records. A view: it measures nothing.

Core: standard library (and NumPy where times are compared). A claim is a few *cases*: each one
condition that the document leaves open (in eager mode, as a graph, with a gradient), measured at
several sizes and held against what the claim makes one expect there. Of expectations there are
five, and a YAML file can name no other:

    growth    how a metric depends on the size, by the law of growth: flat, linear, quadratic,
              exponential; or `grows`, from each size to the next, whatever the law
    slope     how much of a metric each unit of the size adds
    ratio     a metric of `run` over the same, or another, of `against`
    value     a metric as it is, or in a unit that is a product of fields and numbers
    outcome   how the cell ends, and what TensorFlow says then

At each size a case holds, or not, or that is unknown: a metric is null, a cell failed, the interval
of a time contains the threshold. A case with several expectations holds where all of them do.

    supported      every case holds at every size
    refuted        none holds at any
    depends        some hold and some don't, at the conditions or sizes that the evidence names
    inconclusive   what is unknown could still change the verdict
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import pairwise
from typing import Any, Literal

from runner.errors import BadInput, nearest
from runner.judging import comparison, law, selection
from runner.judging.tolerance import tolerance
from runner.metrics import METRICS, Metric, Source, Unit
from runner.records import Record, Status

Words = Mapping[str, Any]
"""A cell as a claim names it: what a user would type, `scenario.size` and its value."""

Lookup = Callable[[Words], Record]


class Verdict(StrEnum):
    SUPPORTED = "supported"
    REFUTED = "refuted"
    DEPENDS = "depends"
    INCONCLUSIVE = "inconclusive"


# What may be expected. Each class is one comparison; its first field names it in YAML.

Shape = Literal["flat", "grows", "linear", "quadratic", "exponential"]


@dataclass(frozen=True)
class Growth:
    growth: str
    shape: Shape
    because: str | None


@dataclass(frozen=True)
class Slope:
    slope: str
    unit: str | None
    at_least: float | None
    at_most: float | None
    because: str | None


@dataclass(frozen=True)
class Ratio:
    ratio: str
    to: str | None
    """Another metric for the lower side of the fraction."""
    at_least: float | None
    at_most: float | None
    because: str | None


@dataclass(frozen=True)
class Value:
    value: str
    unit: str | None
    at_least: float | None
    at_most: float | None
    because: str | None


@dataclass(frozen=True)
class Ends:
    outcome: Literal["completed", "failed", "out_of_memory", "timed_out", "killed"]
    says: str | None
    """Part of the reason."""
    because: str | None


Bounded = Slope | Ratio | Value
Expectation = Growth | Slope | Ratio | Value | Ends

FIGURES = {
    "tensor_begin_bytes": "memory",
    "tensor_peak_bytes": "memory",
    "tensor_live_bytes": "memory",
    "allocated_bytes": "memory",
    "allocations": "memory",
    "seconds": "timing",
    "host_bytes": "timing",
    "host_peak_bytes": "timing",
}
"""What a phase of a trial tells, and which kind of trial: `build.tensor_live_bytes`."""


@dataclass(frozen=True)
class Case:
    """One condition that the document leaves open."""

    when: str
    run: Words
    against: Words | None
    field: str | None
    """What the sizes are values of."""
    sizes: tuple[float, ...]
    expect: tuple[Expectation, ...]

    def at(self, words: Words) -> list[Words]:
        """The cell at each size; the cell itself where there are none."""
        if self.field is None:
            return [words]
        return [{**words, self.field: size} for size in self.sizes]

    @property
    def cells(self) -> list[Words]:
        return [cell for words in (self.run, self.against) if words for cell in self.at(words)]

    @property
    def kinds(self) -> frozenset[str]:
        """The trials that its evidence rests on."""
        return frozenset(kind for each in self.expect for kind in _kinds_of(each))


@dataclass(frozen=True)
class Claim:
    id: str
    claim: str
    document: str
    cases: tuple[Case, ...]
    advice: Mapping[str, str]
    """What to do, for each verdict that has a lesson."""
    contradicts: tuple[str, ...] = ()


def _kinds_of(expectation: Expectation) -> Iterable[str]:
    if isinstance(expectation, Ends):
        return ["memory"]  # as good as any to see how a cell ends, and quickly over
    names = [metric_of(expectation)]
    if isinstance(expectation, Ratio) and expectation.to is not None:
        names.append(expectation.to)
    kinds = [
        FIGURES[name.rpartition(".")[2]] if "." in name else METRICS[name].source for name in names
    ]
    return ["memory" if kind == "either" else kind for kind in kinds]


def metric_of(expectation: Growth | Bounded) -> str:
    return str(getattr(expectation, fields(expectation)[0].name))


# Judging.


@dataclass(frozen=True)
class Reading:
    """A metric of one cell, with its interval where it has one; or why there is none."""

    value: float | None
    interval: tuple[float, float] | None = None
    why: str = ""


@dataclass(frozen=True)
class Finding:
    """One expectation at one size (growth: at all of them)."""

    covers: tuple[int, ...]
    """Which of the case's sizes it speaks of."""
    holds: bool | None
    measured: float | None = None
    interval: tuple[float, float] | None = None
    why: str = ""
    """Why it is unknown; or how the cell ended."""


@dataclass(frozen=True)
class Tested:
    """An expectation with everything that was read for it."""

    expectation: Expectation
    readings: tuple[Reading, ...]
    against: tuple[Reading, ...]
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool | None:
        return _all(finding.holds for finding in self.findings)


@dataclass(frozen=True)
class JudgedCase:
    case: Case
    tested: tuple[Tested, ...]

    @property
    def holds_at(self) -> dict[int, bool | None]:
        """By number of the size: whether all that is expected there holds."""
        found: dict[int, list[bool | None]] = {}
        for tested in self.tested:
            for finding in tested.findings:
                for number in finding.covers:
                    found.setdefault(number, []).append(finding.holds)
        return {number: _all(found[number]) for number in sorted(found)}

    @property
    def whole(self) -> bool:
        """Holds at every size."""
        return set(self.holds_at.values()) == {True}

    @property
    def split(self) -> bool:
        """Holds at some sizes and not at others."""
        return {True, False} <= set(self.holds_at.values())

    @property
    def unknown(self) -> list[str]:
        return [
            finding.why
            for tested in self.tested
            for finding in tested.findings
            if finding.holds is None
        ]


@dataclass(frozen=True)
class Judgement:
    claim: Claim
    verdict: Verdict
    cases: tuple[JudgedCase, ...]

    @property
    def advice(self) -> str:
        return self.claim.advice.get(self.verdict, "")


def judge(claim: Claim, lookup: Lookup) -> Judgement:
    """The verdict, from the records of the claim's cells alone."""
    cases = tuple(_judged(case, lookup) for case in claim.cases)
    return Judgement(claim, verdict_of([case.holds_at.values() for case in cases]), cases)


def verdict_of(cases: Sequence[Iterable[bool | None]]) -> Verdict:
    """From whether each case holds at each of its sizes; None is unknown."""
    seen = {holds for case in cases for holds in case}
    if {True, False} <= seen:
        return Verdict.DEPENDS  # whatever is unknown can't take that back
    if None in seen or not seen:
        return Verdict.INCONCLUSIVE
    return Verdict.SUPPORTED if True in seen else Verdict.REFUTED


def _all(holds: Iterable[bool | None]) -> bool | None:
    seen = set(holds)
    return False if False in seen else None if None in seen else True


def _judged(case: Case, lookup: Lookup) -> JudgedCase:
    run = [lookup(words) for words in case.at(case.run)]
    against = [lookup(words) for words in case.at(case.against)] if case.against else run
    return JudgedCase(case, tuple(_test(each, case, run, against) for each in case.expect))


def _test(
    expectation: Expectation, case: Case, run: Sequence[Record], against: Sequence[Record]
) -> Tested:
    if isinstance(expectation, Ends):
        endings = tuple(_ending(expectation, record, n) for n, record in enumerate(run))
        return Tested(expectation, (), (), endings)
    metric = metric_of(expectation)
    readings = [read(record, metric) for record in run]
    others: list[Reading] = []
    if isinstance(expectation, Growth):
        findings = [_growth(expectation, case, readings)]
    elif isinstance(expectation, Slope):
        units = [unit_of(expectation.unit, record.spec) for record in run]
        findings = list(_slopes(expectation, case.sizes, readings, units))
    elif isinstance(expectation, Value):
        units = [unit_of(expectation.unit, record.spec) for record in run]
        findings = [
            _within(expectation, (n,), _scaled(reading, unit))
            for n, (reading, unit) in enumerate(zip(readings, units, strict=True))
        ]
    else:
        others = [read(record, expectation.to or metric) for record in against]
        findings = [
            _within(expectation, (n,), _quotient(expectation, readings[n], others[n], run[n], base))
            for n, base in enumerate(against)
        ]
    return Tested(expectation, tuple(readings), tuple(others), tuple(findings))


def measure_of(name: str) -> Metric:
    """A metric; or a phase's figure as if it were one."""
    if name in METRICS:
        return METRICS[name]
    figure = name.rpartition(".")[2]
    unit = figure.rpartition("_")[2]
    source: Source = "memory" if FIGURES[figure] == "memory" else "timing"
    known: dict[str, Unit] = {"bytes": "bytes", "seconds": "seconds"}
    return Metric(name, figure, known.get(unit, "count"), source, "")


def read(record: Record, metric: str) -> Reading:
    """What a cell says on a metric, or on a phase's figure."""
    if not record.outcome.completed:
        return Reading(None, why=f"the cell ended {_ended(record)}")
    phase, _, figure = metric.rpartition(".")
    if phase:
        values = [
            value
            for trial in record.trials
            if trial.outcome.completed and trial.kind == FIGURES[figure]
            if (value := trial.phases.get(phase, {}).get(figure)) is not None
        ]
        if not values:
            return Reading(None, why=f"no {FIGURES[figure]} trial told {metric}")
        # As for a record's metrics: memory is a maximum, what comes from timing trials a median.
        value = max(values) if FIGURES[figure] == "memory" else statistics.median(values)
        return Reading(value, (value, value))
    value_or_none = record.metrics.get(metric)
    if value_or_none is None:
        why = record.unavailable.get(metric, "does not apply")
        return Reading(None, why=f"{METRICS[metric].label}: {why}")
    if METRICS[metric].source == "timing":
        return Reading(value_or_none, record.intervals.get(metric))
    return Reading(value_or_none, (value_or_none, value_or_none))


def _ended(record: Record) -> str:
    reason = (record.outcome.reason or "").strip().splitlines()
    return f"{comparison.ended(record)}{f': {reason[0]}' if reason else ''}"


def unit_of(unit: str | None, spec: Mapping[str, Any]) -> float:
    """A product of fields and numbers, as in `4 * batch_size * scenario.size`, in a cell."""
    product = 1.0
    known = selection.fields(spec)
    for word in (unit or "1").split("*"):
        name = word.strip()
        number = known.get(name, name)
        if name not in known and re.fullmatch(r"\d+(\.\d+)?", name):
            number = float(name)
        if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
            numbers = [key for key, value in known.items() if type(value) in (int, float)]
            raise BadInput(f"unit: {name!r} is no number and no field.", nearest(name, numbers))
        product *= number
    return product


def _scaled(reading: Reading, unit: float) -> Reading:
    if reading.value is None:
        return reading
    if reading.interval is None:
        return Reading(reading.value / unit)
    low, high = reading.interval
    return Reading(reading.value / unit, (low / unit, high / unit))


def _quotient(ratio: Ratio, one: Reading, other: Reading, run: Record, against: Record) -> Reading:
    for reading in (one, other):
        if reading.value is None:
            return reading
    assert one.value is not None
    assert other.value is not None
    if ratio.to is None and ratio.ratio in METRICS and METRICS[ratio.ratio].is_time:
        pair = selection.Pair(against, run, "against", "run")
        (row, *_) = comparison.compare([pair], [ratio.ratio]).rows
        if row.ratio is None or row.interval is None:
            return Reading(None, why=row.reason or "one process can't tell")
        return Reading(row.ratio, row.interval)
    value = _over(one.value, other.value)
    if one.interval is None or other.interval is None:
        return Reading(value)
    # Bytes are not below 0; where an interval is, there is just no telling how small they are.
    (one_low, one_high), (other_low, other_high) = (
        (max(0.0, low), max(0.0, high)) for low, high in (one.interval, other.interval)
    )
    return Reading(value, (_over(one_low, other_high), _over(one_high, other_low)))


def _over(one: float, other: float) -> float:
    """Nothing over nothing is the same."""
    if one == other:
        return 1.0
    return one / other if other else math.inf


def _within(expectation: Bounded, covers: tuple[int, ...], reading: Reading) -> Finding:
    """Whether the whole interval lies within the thresholds, or all of it outside."""
    if reading.value is None:
        return Finding(covers, None, why=reading.why)
    if reading.interval is None:
        why = "from one process there is no telling how far it can be trusted"
        return Finding(covers, None, reading.value, why=why)
    least = -math.inf if expectation.at_least is None else expectation.at_least
    most = math.inf if expectation.at_most is None else expectation.at_most
    low, high = reading.interval
    if least <= low and high <= most:
        return Finding(covers, True, reading.value, reading.interval)
    if high < least or low > most:
        return Finding(covers, False, reading.value, reading.interval)
    why = f"from {low:.3g} to {high:.3g}, it may lie on either side of the threshold"
    return Finding(covers, None, reading.value, reading.interval, why)


def _slopes(
    slope: Slope, sizes: Sequence[float], readings: Sequence[Reading], units: Sequence[float]
) -> Iterable[Finding]:
    """Between neighbouring sizes; each speaks of the larger one."""
    for n, (before, after) in enumerate(pairwise(readings), start=1):
        if before.value is None or after.value is None:
            yield _within(slope, (n,), before if before.value is None else after)
            continue
        step = (sizes[n] - sizes[n - 1]) * units[n - 1]
        interval = None
        if before.interval and after.interval:
            least = after.interval[0] - before.interval[1]
            most = after.interval[1] - before.interval[0]
            interval = (least / step, most / step)
        yield _within(slope, (n,), Reading((after.value - before.value) / step, interval))


def _growth(growth: Growth, case: Case, readings: Sequence[Reading]) -> Finding:
    axis, sizes, covers = case.field or "size", case.sizes, tuple(range(len(case.sizes)))
    values = [reading.value for reading in readings if reading.value is not None]
    if len(values) < len(readings):
        why = next(reading.why for reading in readings if reading.value is None)
        return Finding(covers, None, why=why)
    found = law.law(zip(sizes, values, strict=True), tolerance(measure_of(growth.growth)))
    assert found is not None  # a claim has sizes enough
    holds = found.rises if growth.shape == "grows" else found.shape == growth.shape
    return Finding(covers, holds, why=found.words(selection.short(axis)))


def _ending(expected: Ends, record: Record, number: int) -> Finding:
    outcome = record.outcome
    told = _ended(record) if not outcome.completed else "completed"
    if outcome.status in (Status.INTERRUPTED, Status.UNSUPPORTED):
        return Finding((number,), None, why=told)
    as_expected = outcome.status.value == expected.outcome
    said = expected.says is None or expected.says.lower() in (outcome.reason or "").lower()
    return Finding((number,), as_expected and said, why=told)
