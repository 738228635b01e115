"""Compare two cells: the ratio of a metric, its interval, and a verdict.

Core: standard library and NumPy. The first line that applies decides a row:

    either cell did not complete             worse or better, by which of the two completed
    a value is not known                     not comparable
    what a time depends on differs           not comparable (memory: if the allocator differs)

    of a peak that is drawn anew in each process (`repeatability`), by what each process had:
        one side lies apart (Smirnov)        better or worse
        a gap of two ranges, and a tenth     better or worse
        lowest and highest agree             same (of few processes, if all lie within 1 %)
        else                                 unclear, and how many memory processes settle it

    of any other figure, by the difference and its interval:
        a lone trial's steps differ as much  unclear, two more memory processes settle it
        beyond the bound, interval beyond 0  better or worse
        interval within the bound            same
        else                                 unclear, and how many processes settle it

The bound, within which figures count as the same, and the interval:

- Times: a ratio within the noise threshold, 5 % unless said otherwise, to either side. The ratio's
  error comes from a hierarchical bootstrap: processes are drawn, then steps within each, and the
  median of medians is taken. From 3 or 7 processes a bootstrap knows the spread but not the tails,
  so the interval is Student's: ratio · exp(± t · error), on Welch's degrees of freedom.
- Host memory: a difference of 1 MB, or of the threshold if that is more. It is not deterministic,
  so it has an interval over processes as in `estimate`.
- Tensor memory: 256 bytes or 0.5 %, whichever is more. Where it repeats, the interval is a point.
  Of a peak that is drawn anew the interval is what was seen, most apart; Smirnov's exact test of
  two samples is shifted by the bound and gives one false alarm in a thousand (values that tie make
  it rarer still). Fewer than seven processes are too few for it: then peaks are told apart with a
  gap between them of twice the wider range of the two and of a tenth of the larger peak. Figures
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

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from runner.analysis import estimate, repeatability, significance
from runner.analysis.selection import Pair, PairKey, Words, format_word, list_differing_fields
from runner.analysis.tolerance import NOISE, Tolerance, find_tolerance
from runner.errors import BadInput
from runner.metrics import (
    COMPARED,
    EXAMPLES_PER_SECOND,
    METRICS,
    STEP_SECONDS,
    Metric,
    format_metric,
)
from runner.records import Record, Status

OUTCOME = "outcome"
"""The row of two cells of which at least one did not complete names this instead of a metric."""

_MOST_PROCESSES = 200
_FEWEST = 3  # one process says nothing of its spread, and two hardly more
_FALSE_ALARMS = 0.001
"""False-alarm rate for varying peaks; low, because CI asks daily."""
_RANGES_APART = 2.0
_SHARE_APART = 0.1
"""Gap between the peaks of two cells that three processes of each must show: in ranges of the wider
one, and as a share of the larger. Processes of one graph differ by a tenth or more seldom (the
gradient of an unrolled loop: 11 to 30 %); of two such peaks, taken alike often, three processes
show one and three the other one time in 32."""
_POWER = 0.8416  # this many standard errors to one side of the truth lie 80 % of estimates


class RowVerdict(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class ComparisonRow:
    """One metric of two cells, as `compare --json` prints it."""

    metric: str
    baseline: str
    """The cell's name, as the candidate's."""
    candidate: str
    held: Words
    """Where in the grid the two stand."""
    baseline_value: float | str | None
    """A figure; of the row `OUTCOME` the status."""
    candidate_value: float | str | None
    baseline_id: str
    candidate_id: str
    other_code: str | None
    """How the user's own code differs between the two, where it does."""
    verdict: RowVerdict = RowVerdict.NOT_COMPARABLE
    reason: str = ""
    ratio: float | None = None
    """Candidate over baseline; None where the baseline is 0 and the candidate is not."""
    interval: tuple[float, float] | None = None
    same_within: str = ""
    more_processes: int | None = None
    """How many each of the two cells would need on top, where the verdict is `unclear`."""

    @property
    def explanation(self) -> str:
        """Return the verdict as a person reads it."""
        return f"{self.verdict}: {self.reason}" if self.reason else str(self.verdict)

    @property
    def pair_key(self) -> PairKey:
        """Return the key of the row's pair."""
        names = self.baseline, self.candidate
        return self.baseline_id, self.candidate_id, *names, *self.held.items()


@dataclass(frozen=True)
class Comparison:
    """The rows of all pairs."""

    rows: tuple[ComparisonRow, ...]
    tested: int
    """Rows with an error, among which the 5 % are shared out."""


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
    unsteady: float = 0.0
    """The part that is known to vary although no error could be had of it."""
    seen: tuple[list[float], list[float]] | None = None
    """The value of each process of either cell, for a peak that is drawn anew in each."""

    @property
    def value(self) -> float:
        return self.candidate.center - self.baseline.center

    @property
    def is_exact(self) -> bool:
        return self.baseline.error == 0 and self.candidate.error == 0 and self.seen is None

    def estimate_error(self, more: int = 0) -> tuple[float, float]:
        """Return the standard error and its degrees of freedom (Welch's), as they would be with
        `more` processes of either cell."""
        variance = uncertainty = 0.0
        for side in (self.baseline, self.candidate):
            count = side.processes + more
            if side.error is None or count < 2:
                return math.inf, 1.0
            share = side.error**2 * side.processes / count
            variance += share
            uncertainty += share**2 / (count - 1)
        return math.sqrt(variance), variance**2 / uncertainty if uncertainty else 1.0

    def is_settled_by(self, more: int, confidence: float) -> bool:
        """Return True if `more` processes of either cell would make the verdict clear, four times
        in five, if value and errors are what they seem now."""
        error, degrees = self.estimate_error(more)
        half = (estimate.compute_student_t(degrees, confidence) + _POWER) * error
        beyond = abs(self.value) - self.bound
        if beyond > 0:
            return half <= abs(self.value) and _POWER * error <= beyond
        return half <= -beyond


@dataclass(frozen=True)
class Question:
    """Pairs that differ in the same, and one metric of them."""

    pairs: Sequence[Pair]
    metric: str
    chosen_among: int = 1
    """The number of questions of which this one was chosen for its figures."""


@dataclass(frozen=True)
class Answer:
    """A row for each pair of a question."""

    rows: tuple[ComparisonRow, ...]
    average: ComparisonRow | None
    """The mean ratio of several times; the averages of all questions share 5 % of their own."""


def compare(
    pairs: Sequence[Pair],
    metrics: Sequence[str] | None = None,
    threshold: float = NOISE,
    allowed: Tolerance | None = None,
) -> Comparison:
    """Return a row for every metric of every pair; raise `BadInput` where none applies.

    `metrics`: the four that decide, unless named; `allowed`: the bound for tensor memory, in place
    of our own.
    """
    listed: list[_Unjudged] = []
    for pair in pairs:
        rows = list(_list_rows(pair, metrics or _choose_metrics(pair), threshold, allowed))
        if not all(record.outcome.completed for _, record in pair.sides):
            listed.append((_make_outcome_row(pair), None))
            rows = [(row, effect) for row, effect in rows if effect]
        listed += rows
    if not listed:
        names = ", ".join(metrics or COMPARED)
        raise BadInput(f"--metric {names}: applies to none of the cells.", "Name another metric.")
    tested = _count_tested(listed)
    confidence = 1 - 0.05 / max(1, tested)
    return Comparison(tuple(_judge(row, effect, confidence) for row, effect in listed), tested)


def answer_questions(
    questions: Sequence[Question], threshold: float = NOISE, allowed: Tolerance | None = None
) -> list[Answer]:
    """Return the answer to each question; the intervals of all their rows hold together. Both cells
    of each pair completed and have the figure."""
    listed = [
        [
            row
            for pair in question.pairs
            for row in _list_rows(pair, [question.metric], threshold, allowed)
        ]
        for question in questions
    ]
    averages = [_average_times(rows) for rows in listed]
    tested = sum(
        question.chosen_among * _count_tested(rows)
        for question, rows in zip(questions, listed, strict=True)
    )
    averaged = sum(
        question.chosen_among
        for question, average in zip(questions, averages, strict=True)
        if average
    )
    confidence, confidence_of_averages = (1 - 0.05 / max(1, count) for count in (tested, averaged))
    answers = []
    for rows, average in zip(listed, averages, strict=True):
        judged = _judge(*average, confidence_of_averages) if average else None
        if judged and judged.more_processes:  # the pairs share them
            more = math.ceil(judged.more_processes / len(rows))
            judged = replace(judged, more_processes=more)
        own = tuple(_judge(row, effect, confidence) for row, effect in rows)
        answers.append(Answer(own, judged))
    return answers


_Unjudged = tuple[ComparisonRow, _Effect | None]


def _count_tested(rows: Sequence[_Unjudged]) -> int:
    """Return how many rows have an error, and so a chance to be wrong."""
    return sum(1 for _, effect in rows if effect and not effect.is_exact)


def _average_times(rows: Sequence[_Unjudged]) -> _Unjudged | None:
    """Return the mean ratio of several pairs of times, as of one pair; None where one has no
    error."""
    effects = [effect for row, effect in rows if effect and METRICS[row.metric].is_time]
    if len(rows) < 2 or len(effects) < len(rows):
        return None
    sides = []
    for own in ([e.baseline for e in effects], [e.candidate for e in effects]):
        errors = [side.error for side in own if side.error is not None]
        if len(errors) < len(own):
            return None
        center = statistics.mean(side.center for side in own)
        error = math.sqrt(sum(error**2 for error in errors)) / len(own)
        # Each pair's own mean takes one of the degrees of freedom.
        sides.append(_Side(center, error, sum(side.processes - 1 for side in own) + 1))
    effect = replace(effects[0], baseline=sides[0], candidate=sides[1])
    row = replace(rows[0][0], held={}, baseline_value=None, candidate_value=None)
    return replace(row, ratio=math.exp(min(effect.value, 700.0))), effect


def _choose_metrics(pair: Pair) -> list[str]:
    """Return the metrics that decide; and where the peak varies, those that don't with it."""
    records = (pair.baseline, pair.candidate)
    names = list(COMPARED)
    if any(repeatability.can_vary(one.trials, one.spec.execution) for one in records):
        alike = [each.name for each in METRICS.values() if each.op_order == "does not matter"]
        for name in reversed(alike):
            values = [estimate.list_samples(one.trials, name, one.spec) for one in records]
            if all(len(each) > 1 and len(set(each)) == 1 for each in values):
                names.insert(1, name)
    return names


_Value = float | str | None


def _make_row(pair: Pair, metric: str, one: _Value, other: _Value) -> ComparisonRow:
    return ComparisonRow(
        metric,
        pair.baseline_name,
        pair.candidate_name,
        pair.held,
        one,
        other,
        pair.baseline.id,
        pair.candidate.id,
        pair.other_code,
    )


def _list_rows(
    pair: Pair, metrics: Sequence[str], threshold: float, allowed: Tolerance | None
) -> Iterator[_Unjudged]:
    """Yield a row for each metric that applies to either, with its effect if it can be judged."""
    for name in metrics:
        records = (pair.baseline, pair.candidate)
        if all(name not in record.metrics for record in records):
            continue
        metric = METRICS[name]
        a, b = (record.metrics.get(name) for record in records)
        row = _make_row(pair, name, a, b)
        if a is None or b is None:
            yield replace(row, reason=_explain_unknown(pair, name)), None
            continue
        ratio = 1.0 if a == b else b / a if a else None
        if reason := _explain_incomparable(pair, metric):
            yield replace(row, ratio=None if metric.is_time else ratio, reason=reason), None
        elif metric.is_time:  # on the logarithm of the ratio
            ours, theirs = (_measure_time(metric, record) for record in records)
            # Two processes that are far apart leave a ratio beyond what a float holds.
            bound = math.log1p(threshold)
            effect = _Effect(ours, theirs, bound, lambda log: math.exp(min(log, 700.0)))
            yield replace(row, ratio=ratio, same_within=f"{threshold * 100:.3g} %"), effect
        else:  # on the difference: ratios know nothing to say of zeros
            same = find_tolerance(metric, threshold)
            if allowed and metric.is_memory and metric.source == "memory":
                same = same if metric.unit == "bytes/step" else allowed  # growth adds up
            bounds = [format_metric(name, same.absolute)] if same.absolute else []
            bounds += [f"{same.share * 100:.3g} %"] if same.share else []
            row = replace(row, ratio=ratio, same_within=" or ".join(bounds) or "0")
            yield row, _measure_amounts(metric, *records, same)


def _judge(row: ComparisonRow, effect: _Effect | None, confidence: float) -> ComparisonRow:
    """Return the row with its verdict, by the table at the top of this module."""
    if effect is None:
        return row
    if effect.seen:
        return _judge_seen(row, *effect.seen, effect.bound, confidence)
    half = 0.0
    if not effect.is_exact:
        error, degrees = effect.estimate_error()
        half = estimate.compute_student_t(degrees, confidence) * error
    low, high = effect.value - half, effect.value + half
    if effect.bound < abs(effect.value) <= effect.unsteady:
        more = _FEWEST - 1
        reason = f"its steps differ by as much; {_ask_for_more(more, 'memory process')}"
        return replace(row, verdict=RowVerdict.UNCLEAR, more_processes=more, reason=reason)
    if row.ratio is not None and half == 0:
        row = replace(row, interval=(row.ratio, row.ratio))
    elif row.ratio is not None and math.isfinite(half) and effect.to_ratio:
        ends = (effect.to_ratio(low), row.ratio, effect.to_ratio(high))
        row = replace(row, interval=(min(ends), max(ends)))
    if abs(effect.value) > effect.bound and (low > 0 or high < 0):
        return replace(row, verdict=_tell_apart(row, is_smaller=high < 0))
    if -effect.bound <= low and high <= effect.bound:
        return replace(row, verdict=RowVerdict.SAME)
    found: int | None
    if effect.baseline.error is None or effect.candidate.error is None:
        found = max(1, _FEWEST - min(effect.baseline.processes, effect.candidate.processes))
    else:
        counts = range(1, _MOST_PROCESSES + 1)
        found = next((each for each in counts if effect.is_settled_by(each, confidence)), None)
    reason = _ask_for_more(found, "process")
    return replace(row, verdict=RowVerdict.UNCLEAR, more_processes=found, reason=reason)


def _judge_seen(
    row: ComparisonRow,
    ours: Sequence[float],
    theirs: Sequence[float],
    bound: float,
    confidence: float,
) -> ComparisonRow:
    """Return the row with its verdict, by the values that processes of either cell had."""
    if row.ratio is not None and min(ours) > 0:
        row = replace(row, interval=(min(theirs) / max(ours), max(theirs) / min(ours)))
    one_sided = min(1 - confidence, _FALSE_ALARMS) / 2
    larger = significance.compute_smirnov_p([value + bound for value in ours], theirs)
    smaller = significance.compute_smirnov_p([value + bound for value in theirs], ours)
    if min(larger, smaller) <= one_sided:
        return replace(row, verdict=_tell_apart(row, is_smaller=smaller < larger))
    fewest, both = min(len(ours), len(theirs)), [*ours, *theirs]
    gap = max(min(theirs) - max(ours), min(ours) - max(theirs))
    ranges = [max(values) - min(values) for values in (ours, theirs)]
    clear = max(bound, _SHARE_APART * max(both), _RANGES_APART * max(ranges))
    if fewest >= repeatability.FEW and gap > clear:
        return replace(row, verdict=_tell_apart(row, is_smaller=max(theirs) < min(ours)))
    ends = (min(theirs) - min(ours), max(theirs) - max(ours))
    is_few = fewest < repeatability.LEAST
    is_near = fewest >= repeatability.FEW and repeatability.TOGETHER.same(both)
    if (is_near or not is_few) and max(map(abs, ends)) <= bound:
        return replace(row, verdict=RowVerdict.SAME)
    more: int | None = repeatability.LEAST - fewest
    if not is_few:
        more = significance.count_missing_trials(ours, theirs, bound, one_sided, _MOST_PROCESSES)
    why = "processes of one cell differ by as much"
    if gap > max(ranges):
        why = f"too few processes ({fewest}) to tell a difference from chance"
    reason = f"{why}; {_ask_for_more(more, 'memory process')}"
    return replace(row, verdict=RowVerdict.UNCLEAR, more_processes=more, reason=reason)


def _tell_apart(row: ComparisonRow, is_smaller: bool) -> RowVerdict:
    is_better = is_smaller == METRICS[row.metric].smaller_is_better
    return RowVerdict.BETTER if is_better else RowVerdict.WORSE


def _ask_for_more(more: int | None, what: str) -> str:
    if not more:
        return f"the difference is too small to measure: {_MOST_PROCESSES} more are not enough"
    return f"{more} more {what}{'es' if more > 1 else ''} would settle it"


# Evidence.


def _measure_time(metric: Metric, record: Record) -> _Side:
    """Return the logarithm, by each process's steps, or the one value that it has."""
    if metric.name in (STEP_SECONDS, EXAMPLES_PER_SECOND):
        timed = [one for one in record.trials if one.kind == "timing" and one.outcome.completed]
        series = [estimate.list_steady_seconds(trial) for trial in timed]
    else:
        values = estimate.list_samples(record.trials, metric.name, record.spec)
        series = [[value] for value in values]
    positive = [[seconds for seconds in process if seconds > 0] for process in series]
    known = [process for process in positive if process]
    center = math.log(record.metrics[metric.name] or math.nan)
    error = significance.estimate_ratio_error(known) if len(known) >= 2 else None
    return _Side(center, error, len(known))


def _measure_amounts(
    metric: Metric, baseline: Record, candidate: Record, same: Tolerance
) -> _Effect:
    """Return the difference in bytes, or in number."""
    a, b = _measure_amount(metric, baseline), _measure_amount(metric, candidate)

    def to_ratio(difference: float) -> float:
        return max(0.0, 1 + difference / a.center)

    return _Effect(
        a,
        b,
        same.at(a.center, b.center),
        to_ratio if a.center > 0 else None,
        _measure_unsteadiness(metric, baseline) + _measure_unsteadiness(metric, candidate),
        _list_seen(metric, baseline, candidate),
    )


def _measure_amount(metric: Metric, record: Record) -> _Side:
    values = estimate.list_samples(record.trials, metric.name, record.spec)
    if not values:  # a record without its samples still has its figures
        values = [record.metrics[metric.name] or 0.0]
    center = statistics.median(values)
    if len(values) >= 2:
        return _Side(center, estimate.estimate_median_error(values), len(values))
    return _Side(center, None if metric.source == "timing" else 0.0, 1)


def _measure_unsteadiness(metric: Metric, record: Record) -> float:
    """Return by how much the peaks of the only memory trial's steps differ.

    Ops that TensorFlow runs concurrently come in another order each time, and a second process
    would differ as well.
    """
    trials = repeatability.list_memory_trials(record.trials)
    if metric.op_order != "matters" or len(trials) != 1:
        return 0.0
    peaks = trials[0].steps.tensor_peak_bytes or (0.0,)
    return max(peaks) - min(peaks)


def _list_seen(
    metric: Metric, baseline: Record, candidate: Record
) -> tuple[list[float], list[float]] | None:
    """Return the values of each process, where another may have something else.

    A figure that was shown to repeat would be seen as often as the other cell was looked at.
    """
    if metric.source != "memory":
        return None
    values, can_vary = [], []
    for record in (baseline, candidate):
        own = estimate.list_samples(record.trials, metric.name, record.spec)
        drawn = metric.op_order == "matters" and repeatability.can_vary(
            record.trials, record.spec.execution
        )
        values.append(own)
        can_vary.append(drawn or len(set(own)) > 1)
    ours, theirs = values
    if not (ours and theirs and any(can_vary)):
        return None
    if not can_vary[0]:
        ours = ours * max(1, -(-len(theirs) // len(ours)))
    if not can_vary[1]:
        theirs = theirs * max(1, -(-len(ours) // len(theirs)))
    return ours, theirs


# Rows that can't be judged.


def _make_outcome_row(pair: Pair) -> ComparisonRow:
    """Return the row that comes first: did each cell complete?"""
    a, b = pair.baseline.outcome, pair.candidate.outcome
    verdict = RowVerdict.NOT_COMPARABLE
    if not {a.status, b.status} & {Status.UNSUPPORTED, Status.INTERRUPTED}:
        if a.completed:
            verdict = RowVerdict.WORSE
        elif b.completed:
            verdict = RowVerdict.BETTER
    ended = [(name, each.outcome) for name, each in pair.sides if not each.outcome.completed]
    reason = "; ".join(f"{name}: {outcome.words}" for name, outcome in ended)
    row = _make_row(pair, OUTCOME, str(a.status), str(b.status))
    return replace(row, verdict=verdict, reason=reason)


def _explain_unknown(pair: Pair, name: str) -> str:
    reasons = []
    for who, record in pair.sides:
        if name not in record.metrics:
            reasons.append((who, "does not apply"))
        elif record.metrics[name] is None:
            reasons.append((who, record.unavailable.get(name, "unknown")))
    if len(reasons) == 2 and reasons[0][1] == reasons[1][1]:
        return f"either: {reasons[0][1]}"
    return "; ".join(f"{who}: {reason}" for who, reason in reasons)


def _explain_incomparable(pair: Pair, metric: Metric) -> str:
    """Return which parts of the fingerprint forbid this comparison; empty where none does."""
    if metric.source != "timing" or pair.baseline.fingerprint == pair.candidate.fingerprint:
        return ""
    a, b = (record.environment.comparable for record in (pair.baseline, pair.candidate))
    parts = [part for part in dict.fromkeys((*a, *b)) if a.get(part) != b.get(part)]
    if metric.is_memory:
        parts = [part for part in parts if part == "allocator"]
    elif not parts:
        return "their fingerprints differ, and the records don't say in what"
    fields = list_differing_fields(pair.baseline, pair.candidate)
    meant = {name.rpartition(".")[2] for name in fields}
    return "; ".join(
        f"{part} differs, {_shorten(a.get(part))} against {_shorten(b.get(part))}"
        for part in parts
        if part not in meant
    )


def _shorten(value: str | int | None) -> str:
    text = format_word(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
