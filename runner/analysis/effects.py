"""What each swept field does to a metric, over all cells: the answer of a sweep. The headline, the
rows of `compare` and the first picture of the page are made from this.

Core: standard library only (and NumPy where times are compared). Of a field with several values the
two are compared between which the metric differs most, in each place of the grid that has both. As
they were chosen for that, their rows count as often among those that share the 5 % as there were
pairs of values to choose from.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from runner.analysis.comparison import (
    OUTCOME,
    ComparisonRow,
    Question,
    RowVerdict,
    answer_questions,
)
from runner.analysis.selection import CellGrid, Pair, name_value
from runner.analysis.tolerance import NOISE, Tolerance
from runner.metrics import COMPARED, HOST_GROWTH, METRICS

_APART = (RowVerdict.BETTER, RowVerdict.WORSE)
_MOST_VALUES = 3
"""Of more values of a field a place is not named."""


@dataclass(frozen=True)
class Effect:
    """One metric of two values of a field: a row for each place in the grid."""

    field: str
    """Empty where the two differ in no one field, as yesterday's cells and today's."""
    metric: str
    baseline: str
    candidate: str
    rows: tuple[ComparisonRow, ...]
    average: ComparisonRow | None = None
    """The mean ratio over the rows, of times: it is settled where single rows are not."""

    @cached_property
    def more(self) -> list[ComparisonRow]:
        """Return the rows in which the candidate has more, for certain."""
        return [row for row in self.rows if row.verdict in _APART and has_more(row)]

    @cached_property
    def less(self) -> list[ComparisonRow]:
        return [row for row in self.rows if row.verdict in _APART and not has_more(row)]

    @cached_property
    def same(self) -> list[ComparisonRow]:
        return [row for row in self.rows if row.verdict is RowVerdict.SAME]

    @cached_property
    def unsettled(self) -> list[ComparisonRow]:
        """Return the rows that are unclear or not comparable."""
        return [row for row in self.rows if row.verdict not in (*_APART, RowVerdict.SAME)]

    @cached_property
    def trend(self) -> ComparisonRow | None:
        """Return the average where it tells the two apart."""
        is_apart = self.average and self.average.verdict in _APART
        return self.average if is_apart else None

    @property
    def has_figures(self) -> bool:
        """Return False for a growth of 0 in every cell."""
        is_growth = METRICS[self.metric].is_growth
        return not is_growth or any(r.baseline_value or r.candidate_value for r in self.rows)

    @property
    def is_none(self) -> bool:
        """Return True if the two were shown to be the same, everywhere or on average."""
        is_even = self.average and self.average.verdict is RowVerdict.SAME
        return not self.more and not self.less and bool(is_even or not self.unsettled)

    @property
    def is_unclear(self) -> bool:
        return not (self.trend or self.more or self.less or self.is_none)

    @property
    def more_processes(self) -> int | None:
        """Return how many each cell would need on top to settle what is unclear, if that helps."""
        rows = [self.average] if self.average else self.unsettled
        counts = [row.more_processes for row in rows]
        return max((count or 0 for count in counts), default=0) if all(counts) else None

    @property
    def size(self) -> float:
        """Return how far the two are apart, on average over the places where that is settled."""
        if self.trend:
            return _measure_size(self.trend)
        apart = [_measure_size(row) for row in (*self.more, *self.less)]
        return statistics.mean([*apart, *(0.0 for _ in self.same)]) if apart else 0.0

    def find_place(self, rows: Sequence[ComparisonRow]) -> str:
        """Return what tells these rows from the others: `graph, batch 32`; empty
        where nothing does, and for all rows."""
        if len(rows) == len(self.rows):
            return ""
        held = list(dict.fromkeys(name for row in self.rows for name in row.held))
        for fields in [*combinations(held, 1), *combinations(held, 2)]:
            values = {
                name: dict.fromkeys(row.held.get(name, "") for row in rows) for name in fields
            }
            inside = [row for row in self.rows if _stands_at(row, values)]
            is_short = all(len(words) <= _MOST_VALUES for words in values.values())
            if is_short and len(inside) == len(rows):
                return ", ".join(name_value(name, " or ".join(values[name])) for name in fields)
        return ""


def has_more(row: ComparisonRow) -> bool:
    """Return True if the candidate of two that were told apart has more."""
    return (row.verdict is RowVerdict.WORSE) == METRICS[row.metric].smaller_is_better


def _measure_size(row: ComparisonRow) -> float:
    """Return the ratio's logarithm, whatever its sign; of something to nothing infinity."""
    return abs(math.log(row.ratio)) if row.ratio and row.ratio > 0 else math.inf


def _stands_at(row: ComparisonRow, values: Mapping[str, Iterable[str]]) -> bool:
    return all(row.held.get(name, "") in allowed for name, allowed in values.items())


def group_rows(rows: Iterable[ComparisonRow]) -> list[Effect]:
    """Return the effects that rows are of, the largest of each metric first."""
    groups: dict[tuple[str, str, str], list[ComparisonRow]] = {}
    for row in rows:
        groups.setdefault((row.metric, row.baseline, row.candidate), []).append(row)
    return sort_effects(Effect("", *names, tuple(group)) for names, group in groups.items())


def sort_effects(effects: Iterable[Effect]) -> list[Effect]:
    """Return the effects metric by metric, the largest of each first."""
    order = [OUTCOME, *METRICS]
    return sorted(effects, key=lambda effect: (order.index(effect.metric), -effect.size))


def find_effects(
    grid: CellGrid,
    metrics: Sequence[str] | None = None,
    threshold: float = NOISE,
    allowed: Tolerance | None = None,
) -> list[Effect]:
    """Return the effects of all fields that vary by themselves, the largest of each metric first;
    of the metrics that decide, unless others are named."""
    if metrics is None:  # a growth costs time to compare, and is 0 mostly
        grown = {name for record in grid.records for name in METRICS if record.metrics.get(name)}
        names = [*COMPARED, HOST_GROWTH]
        metrics = [name for name in names if name in grown or not METRICS[name].is_growth]
    asked = {
        (field, metric): pairs
        for field in grid.list_fields()
        for metric in metrics
        if (pairs := _choose_pairs(grid, field, metric))
    }
    questions = [
        Question(pairs, metric, math.comb(len(grid.values[field]), 2))
        for (field, metric), pairs in asked.items()
    ]
    answers = answer_questions(questions, threshold, allowed)
    return sort_effects(
        Effect(
            field,
            metric,
            pairs[0].baseline_name,
            pairs[0].candidate_name,
            answer.rows,
            answer.average,
        )
        for ((field, metric), pairs), answer in zip(asked.items(), answers, strict=True)
    )


def _choose_pairs(grid: CellGrid, field: str, metric: str) -> list[Pair]:
    """Return the pairs between the two values of the field that differ most in the metric, the one
    that has less as the baseline."""
    for value in grid.values[field]:
        if pairs := _list_known(grid.pair(field, value), metric):
            break
    else:
        return []
    differences: dict[str, list[float]] = {value: [0.0]}
    for pair in pairs:
        word = grid.word(pair.candidate, field)
        differences.setdefault(word, []).append(_measure_difference(pair, metric))
    means = {word: statistics.mean(values) for word, values in differences.items()}
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    if low == high:  # all alike
        low, *_, high = means
    known = _list_known(grid.pair(field, low), metric)
    return [pair for pair in known if grid.word(pair.candidate, field) == high]


def _list_known(pairs: Iterable[Pair], metric: str) -> list[Pair]:
    """Return the pairs of which both cells completed and have the figure."""
    known = []
    for pair in pairs:
        records = (pair.baseline, pair.candidate)
        has_figures = all(record.metrics.get(metric) is not None for record in records)
        if has_figures and all(record.outcome.completed for record in records):
            known.append(pair)
    return known


def _measure_difference(pair: Pair, metric: str) -> float:
    """Return how much more the candidate has: of a growth in bytes, as it is often 0, else as a
    logarithm."""
    one, other = (float(record.metrics[metric] or 0) for record in (pair.baseline, pair.candidate))
    if METRICS[metric].is_growth:
        return other - one
    return math.log(max(other, 1e-9) / max(one, 1e-9))
