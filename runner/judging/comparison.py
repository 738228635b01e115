"""Two cells side by side: the ratio of a metric, its interval, and a verdict. A view of records.

Core: standard library and NumPy. A difference is `better` or `worse` where it is larger than what
counts as the same and its interval leaves out no difference at all; `same` where its whole interval
lies within what counts as the same; else `unclear`, and then it is worked out how many processes
would settle it. What counts as the same:

- Times: a ratio within the noise threshold, 5 % unless said otherwise, to either side. The ratio's
  error comes from a hierarchical bootstrap: processes are drawn, then steps within each, and the
  median of medians is taken. From 3 or 7 processes a bootstrap knows the spread but not the tails,
  so the interval is Student's: ratio · exp(± t · error), on Welch's degrees of freedom.
- Host memory: a difference of 1 MB, or of the threshold if that is more. It is not deterministic,
  so it has an interval over processes as in `estimate`.
- Tensor memory: 256 bytes or 0.5 %, whichever is more. Where it repeats, the interval is a point.
  Where a graph's peak is drawn anew in each process (`repeats`), what was seen of both cells is
  compared: `better` and `worse` by Smirnov's exact test of two samples, shifted by what counts as
  the same, at one false alarm in a thousand (values that tie make it rarer still); `same` where the
  lowest and the highest that were seen agree. The interval is what was seen, most apart. Figures
  that don't depend on the order of ops get a row beside it where they repeat.
- Counts: nothing but the same number.

A share of an amount is one of the larger side: it does not matter which side is the baseline.

Rows are many, and chance gets its try in each: the intervals of the rows that have an error hold
*together* with 95 % (Bonferroni: each at 1 - 0.05 / rows). That is stricter than Holm's or
Benjamini and Hochberg's way, and lets the interval and the verdict be one statement.

Times compare only where everything in `environment.comparable` is equal, but for what the two
cells are meant to differ in. Tensor memory, counts and host memory compare across machines and
versions; host memory does not across allocators.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runner.errors import BadInput
from runner.judging import chance, estimate, repeats
from runner.judging.selection import Pair, differing, word
from runner.judging.tolerance import NOISE, Tolerance, tolerance
from runner.metrics import METRICS, Metric, readable
from runner.records import Record, Status

DEFAULT_METRICS = (
    "tensor_peak_bytes",
    "tensor_growth_bytes_per_step",
    "host_peak_bytes",
    "step_seconds",
)
OUTCOME = "outcome"
"""The row of two cells of which at least one did not complete names this instead of a metric."""

_MOST_PROCESSES = 200
_FEWEST = 3  # one process says nothing of its spread, and two hardly more
_FALSE_ALARMS = 0.001
"""Of verdicts on peaks that are drawn anew in each process: a gate that is asked every day."""
_PEAKS = ("tensor_peak_bytes", "tensor_step_peak_bytes")
_WITHOUT_ORDER = ("tensor_live_bytes", "allocated_bytes_per_step", "allocations_per_step")
"""Shown beside a peak that varies, where they repeat."""
_POWER = 0.8416  # this many standard errors to one side of the truth lie 80 % of estimates


class Verdict(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Row:
    """One metric of a pair."""

    pair: Pair
    metric: str
    baseline: float | None
    candidate: float | None
    verdict: Verdict
    ratio: float | None = None
    """Candidate over baseline; None where the baseline is 0 and the candidate is not."""
    interval: tuple[float, float] | None = None
    same_within: str = ""
    more_processes: int | None = None
    """What each of the two cells would need on top, where the verdict is `unclear`."""
    reason: str = ""

    @property
    def explanation(self) -> str:
        """The verdict as a person reads it."""
        return f"{self.verdict}: {self.reason}" if self.reason else str(self.verdict)

    def to_json(self) -> dict[str, Any]:
        pair = self.pair
        values: list[float | str | None] = [self.baseline, self.candidate]
        if self.metric == OUTCOME:
            values = [str(record.outcome.status) for _, record in pair.sides]
        return {
            "metric": self.metric,
            "baseline": pair.baseline_name,
            "candidate": pair.candidate_name,
            "held": pair.held,
            "baseline_value": values[0],
            "candidate_value": values[1],
            "ratio": self.ratio,
            "interval": self.interval,
            "verdict": self.verdict,
            "reason": self.reason,
            "more_processes": self.more_processes,
            "same_within": self.same_within,
            "baseline_id": pair.baseline.id,
            "candidate_id": pair.candidate.id,
            "other_code": pair.other_code,
        }


@dataclass(frozen=True)
class Comparison:
    rows: tuple[Row, ...]
    tested: int
    """Rows with an error, among which the 5 % are shared out."""


# Judging.


@dataclass(frozen=True)
class _Side:
    """One cell's evidence on a metric, on the scale of the effect."""

    center: float
    error: float | None
    """None where one process can't tell."""
    processes: int


@dataclass(frozen=True)
class _Effect:
    """Candidate minus baseline, on a scale where `bound` to either side of 0 is the same."""

    baseline: _Side
    candidate: _Side
    bound: float
    to_ratio: Callable[[float], float] | None
    """None where the baseline is 0 or less, so that nothing is a ratio to it."""
    same_within: str
    unsteady: float = 0.0
    """What is known to vary although no error could be had of it."""
    seen: tuple[list[float], list[float]] | None = None
    """Of a peak that is drawn anew in each process: what each process of either cell had."""

    @property
    def value(self) -> float:
        return self.candidate.center - self.baseline.center

    @property
    def exact(self) -> bool:
        return self.baseline.error == 0 and self.candidate.error == 0 and self.seen is None

    def error(self, more: int = 0) -> tuple[float, float]:
        """Standard error and its degrees of freedom (Welch's), as they would be with `more`
        processes of either cell."""
        variance = uncertainty = 0.0
        for side in (self.baseline, self.candidate):
            count = side.processes + more
            if side.error is None or count < 2:
                return math.inf, 1.0
            share = side.error**2 * side.processes / count
            variance += share
            uncertainty += share**2 / (count - 1)
        return math.sqrt(variance), variance**2 / uncertainty if uncertainty else 1.0

    def half_width(self, confidence: float) -> float:
        if self.exact:
            return 0.0
        error, degrees = self.error()
        return estimate.student(degrees, confidence) * error

    def settled_by(self, more: int, confidence: float) -> bool:
        """Whether `more` processes of either cell would make the verdict clear, four times in
        five, if value and errors are what they seem now."""
        error, degrees = self.error(more)
        half = (estimate.student(degrees, confidence) + _POWER) * error
        beyond = abs(self.value) - self.bound
        if beyond > 0:
            return half <= abs(self.value) and _POWER * error <= beyond
        return half <= -beyond


def compare(
    pairs: Sequence[Pair],
    metrics: Sequence[str] | None = None,
    threshold: float = NOISE,
    allowed: Tolerance | None = None,
) -> Comparison:
    """A row for every metric of every pair. `metrics`: the four that decide, unless named;
    `allowed`: what counts as the same tensor memory, in place of our own bound."""
    found: list[tuple[Row, _Effect | None]] = []
    for pair in pairs:
        known = list(_rows(pair, metrics or _defaults(pair), threshold, allowed))
        if not (pair.baseline.outcome.completed and pair.candidate.outcome.completed):
            measured = [each for each in known if each[1] is not None]
            known = [(_outcome_row(pair), None), *measured]
        found += known
    if not found:
        names = ", ".join(metrics or DEFAULT_METRICS)
        raise BadInput(f"--metric {names}: applies to none of the cells.", "Name another metric.")
    tested = sum(1 for _, effect in found if effect and not effect.exact)
    confidence = 1 - 0.05 / max(1, tested)
    rows = [row if effect is None else _judged(row, effect, confidence) for row, effect in found]
    return Comparison(tuple(rows), tested)


def _defaults(pair: Pair) -> list[str]:
    """The metrics that decide; and where the peak varies, those that don't with it."""
    sides = (pair.baseline, pair.candidate)
    names = list(DEFAULT_METRICS)
    if any(repeats.may_vary(one.trials, one.spec["execution"]) for one in sides):
        for name in reversed(_WITHOUT_ORDER):
            values = [estimate.samples(one.trials, name, one.spec) for one in sides]
            if all(len(each) > 1 and len(set(each)) == 1 for each in values):
                names.insert(1, name)
    return names


def _rows(
    pair: Pair, metrics: Sequence[str], threshold: float, allowed: Tolerance | None
) -> Iterable[tuple[Row, _Effect | None]]:
    """Each metric that applies to one of the two: its row, and the effect if it can be judged."""
    for name in metrics:
        sides = (pair.baseline, pair.candidate)
        if all(name not in record.metrics for record in sides):
            continue
        metric = METRICS[name]
        a, b = (record.metrics.get(name) for record in sides)
        row = Row(pair, name, a, b, Verdict.NOT_COMPARABLE)
        if a is None or b is None:
            yield dataclasses.replace(row, reason=_unknown(pair, name)), None
        elif reason := _incomparable(pair, metric):
            ratio = None if metric.is_time else _ratio(a, b)
            yield dataclasses.replace(row, ratio=ratio, reason=reason), None
        else:
            if metric.is_time:
                effect = _time_effect(metric, *sides, threshold)
            else:
                same = tolerance(metric, threshold)
                if allowed and metric.is_memory and metric.source == "memory":
                    same = same if metric.unit == "bytes/step" else allowed  # growth adds up
                effect = _amount_effect(metric, *sides, same)
            yield dataclasses.replace(row, ratio=_ratio(a, b)), effect


def _ratio(baseline: float, candidate: float) -> float | None:
    if baseline == candidate:
        return 1.0
    return candidate / baseline if baseline else None


_Found = tuple[Verdict, tuple[float, float] | None, int | None, str]
"""A row's verdict, interval, more_processes and reason."""


def _judged(row: Row, effect: _Effect, confidence: float) -> Row:
    judge = _by_interval if effect.seen is None else _by_what_was_seen
    verdict, interval, more, reason = judge(row, effect, confidence)
    return dataclasses.replace(
        row,
        verdict=verdict,
        interval=interval,
        same_within=effect.same_within,
        more_processes=more,
        reason=reason,
    )


def _apart(row: Row, smaller: bool) -> Verdict:
    is_better = smaller == METRICS[row.metric].smaller_is_better
    return Verdict.BETTER if is_better else Verdict.WORSE


def _by_interval(row: Row, effect: _Effect, confidence: float) -> _Found:
    half = effect.half_width(confidence)
    low, high = effect.value - half, effect.value + half
    if effect.bound < abs(effect.value) <= effect.unsteady:
        more = _FEWEST - 1
        reason = f"its steps differ by as much; {more} more memory processes would settle it"
        return Verdict.UNCLEAR, None, more, reason
    interval = None
    if row.ratio is not None and half == 0:
        interval = (row.ratio, row.ratio)
    elif row.ratio is not None and math.isfinite(half) and effect.to_ratio:
        ends = (effect.to_ratio(low), row.ratio, effect.to_ratio(high))
        interval = (min(ends), max(ends))
    if abs(effect.value) > effect.bound and (low > 0 or high < 0):
        return _apart(row, smaller=high < 0), interval, None, ""
    if -effect.bound <= low and high <= effect.bound:
        return Verdict.SAME, interval, None, ""
    found = _more_processes(effect, confidence)
    wanted = found or f"not even {_MOST_PROCESSES}"
    return Verdict.UNCLEAR, interval, found, f"{wanted} more processes would settle it"


def _by_what_was_seen(row: Row, effect: _Effect, confidence: float) -> _Found:
    """See the top of this module."""
    assert effect.seen is not None
    ours, theirs = effect.seen
    interval = None
    if row.ratio is not None and min(ours) > 0:
        interval = (min(theirs) / max(ours), max(theirs) / min(ours))
    one_sided = min(1 - confidence, _FALSE_ALARMS) / 2
    larger = chance.smirnov([value + effect.bound for value in ours], theirs)
    smaller = chance.smirnov([value + effect.bound for value in theirs], ours)
    if min(larger, smaller) <= one_sided:
        return _apart(row, smaller=smaller < larger), interval, None, ""
    ends = (min(theirs) - min(ours), max(theirs) - max(ours))
    enough = min(len(ours), len(theirs)) >= repeats.LEAST
    if enough and max(map(abs, ends)) <= effect.bound:
        return Verdict.SAME, interval, None, ""
    more: int | None = repeats.LEAST - min(len(ours), len(theirs))
    if enough:
        more = chance.more_to_tell(ours, theirs, effect.bound, one_sided, _MOST_PROCESSES)
    wanted = f"{more} more memory processes" if more else f"not even {_MOST_PROCESSES} more"
    reason = f"processes of one cell differ by as much; {wanted} would settle it"
    return Verdict.UNCLEAR, interval, more, reason


def _more_processes(effect: _Effect, confidence: float) -> int | None:
    if effect.baseline.error is None or effect.candidate.error is None:
        return max(1, _FEWEST - min(effect.baseline.processes, effect.candidate.processes))
    return next(
        (more for more in range(1, _MOST_PROCESSES + 1) if effect.settled_by(more, confidence)),
        None,
    )


def _time_effect(metric: Metric, baseline: Record, candidate: Record, threshold: float) -> _Effect:
    """On the logarithm of the ratio."""
    a, b = _time_side(metric, baseline), _time_side(metric, candidate)
    return _Effect(a, b, math.log1p(threshold), _exp, f"{threshold * 100:.3g} %")


def _amount_effect(metric: Metric, baseline: Record, candidate: Record, same: Tolerance) -> _Effect:
    """On the difference in bytes, or in number: ratios know nothing to say of zeros."""
    a, b = _amount_side(metric, baseline), _amount_side(metric, candidate)
    parts = [readable(metric.name, same.absolute)] if same.absolute else []
    parts += [f"{same.share * 100:.3g} %"] if same.share else []

    def to_ratio(difference: float) -> float:
        return max(0.0, 1 + difference / a.center)

    unsteady = _unsteady(metric, baseline) + _unsteady(metric, candidate)
    shown = " or ".join(parts) or "0"
    bound = same.at(a.center, b.center)
    seen = _seen(metric, baseline, candidate)
    return _Effect(a, b, bound, to_ratio if a.center > 0 else None, shown, unsteady, seen)


def _seen(
    metric: Metric, baseline: Record, candidate: Record
) -> tuple[list[float], list[float]] | None:
    """What each process had, where another may have something else. A figure that was shown to
    repeat would be seen as often as the other cell was looked at."""
    if metric.source != "memory":
        return None
    sides = []
    for record in (baseline, candidate):
        values = estimate.samples(record.trials, metric.name, record.spec)
        drawn = metric.name in _PEAKS and repeats.may_vary(record.trials, record.spec["execution"])
        sides.append((values, drawn or len(set(values)) > 1))
    (ours, ours_vary), (theirs, theirs_vary) = sides
    if not (ours and theirs) or not (ours_vary or theirs_vary):
        return None
    if not ours_vary:
        ours = ours * max(1, -(-len(theirs) // len(ours)))
    if not theirs_vary:
        theirs = theirs * max(1, -(-len(ours) // len(theirs)))
    return ours, theirs


def _time_side(metric: Metric, record: Record) -> _Side:
    series = _steps(metric, record)
    center = math.log(record.metrics[metric.name] or math.nan)
    if len(series) < 2:
        return _Side(center, None, len(series))
    return _Side(center, chance.bootstrap_error(series), len(series))


def _steps(metric: Metric, record: Record) -> list[list[float]]:
    """A process each: its steps, or the one value that it has."""
    if metric.name in ("step_seconds", "examples_per_second"):
        trials = [trial for trial in record.trials if trial.outcome.completed]
        series = [estimate.steady_seconds(trial) for trial in trials if trial.kind == "timing"]
    else:
        values = estimate.samples(record.trials, metric.name, record.spec)
        series = [[value] for value in values]
    positive = [[seconds for seconds in process if seconds > 0] for process in series]
    return [process for process in positive if process]


def _amount_side(metric: Metric, record: Record) -> _Side:
    values = estimate.samples(record.trials, metric.name, record.spec)
    if not values:  # a record without its samples still has its figures
        values = [record.metrics[metric.name] or 0.0]
    center = statistics.median(values)
    if len(values) >= 2:
        return _Side(center, estimate.standard_error(values), len(values))
    return _Side(center, None if metric.source == "timing" else 0.0, 1)


def _unsteady(metric: Metric, record: Record) -> float:
    """By how much the peaks of the only memory trial's steps differ: ops that TensorFlow runs
    concurrently come in another order each time, and a second process would differ as well."""
    trials = [one for one in record.trials if one.kind == "memory" and one.outcome.completed]
    if metric.name not in _PEAKS or len(trials) != 1:
        return 0.0
    peaks = trials[0].steps.get("tensor_peak_bytes") or [0.0]
    return max(peaks) - min(peaks)


# What can't be judged.


def _outcome_row(pair: Pair) -> Row:
    """Whether a cell completes is the first thing to compare."""
    a, b = pair.baseline.outcome, pair.candidate.outcome
    no_evidence = (Status.UNSUPPORTED, Status.INTERRUPTED)
    verdict = Verdict.NOT_COMPARABLE
    if a.status not in no_evidence and b.status not in no_evidence:
        if a.completed:
            verdict = Verdict.WORSE
        elif b.completed:
            verdict = Verdict.BETTER
    reasons = [
        f"{name}: {record.outcome.words}"
        for name, record in pair.sides
        if not record.outcome.completed
    ]
    return Row(pair, OUTCOME, None, None, verdict, reason="; ".join(reasons))


def _unknown(pair: Pair, name: str) -> str:
    reasons = []
    for who, record in pair.sides:
        if name not in record.metrics:
            reasons.append(f"{who}: does not apply")
        elif record.metrics[name] is None:
            reasons.append(f"{who}: {record.unavailable.get(name, 'unknown')}")
    if len(reasons) == 2 and reasons[0].partition(": ")[2] == reasons[1].partition(": ")[2]:
        return f"either: {reasons[0].partition(': ')[2]}"
    return "; ".join(reasons)


def _incomparable(pair: Pair, metric: Metric) -> str:
    """Which parts of the fingerprint forbid this comparison."""
    if metric.source != "timing" or pair.baseline.fingerprint == pair.candidate.fingerprint:
        return ""
    a, b = (record.environment.get("comparable", {}) for record in (pair.baseline, pair.candidate))
    parts = [part for part in dict.fromkeys((*a, *b)) if a.get(part) != b.get(part)]
    if metric.is_memory:
        parts = [part for part in parts if part == "allocator"]
    elif not parts:
        return "their fingerprints differ, and the records don't say in what"
    meant = {name.rpartition(".")[2] for name in differing(pair.baseline, pair.candidate)}
    return "; ".join(
        f"{part} differs, {_short(a.get(part))} against {_short(b.get(part))}"
        for part in parts
        if part not in meant
    )


def _short(value: Any) -> str:
    text = word(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _exp(logarithm: float) -> float:
    """Two processes that are far apart leave a ratio open beyond what a float holds."""
    return math.exp(min(logarithm, 700.0))
