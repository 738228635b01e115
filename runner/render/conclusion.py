"""The sentence to take away from a comparison: the terminal and the sweep's page begin with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from runner.analysis.comparison import OUTCOME, Comparison, ComparisonRow, RowVerdict
from runner.analysis.selection import PairKey, name_value
from runner.metrics import HEADLINES, METRICS, STEP_SECONDS, Metric, format_metric

_APART = (RowVerdict.BETTER, RowVerdict.WORSE)


def conclude(comparison: Comparison) -> str:
    """Return a sentence on the pair that memory, or else time, tells apart furthest."""
    by_pair: dict[PairKey, list[ComparisonRow]] = {}
    for row in comparison.rows:
        by_pair.setdefault(row.pair_key, []).append(row)
    whole = [rows for rows in by_pair.values() if rows[0].metric != OUTCOME]
    rows = max(reversed(whole or list(by_pair.values())), key=_rank_pair)
    memory, time = _find_headlines(rows)
    clauses = [_describe_memory(memory)] if memory else []
    if rows[0].metric == OUTCOME:
        clauses = [rows[0].reason + _describe_place(rows[0])]
    elif time:
        clauses.append(_describe_time(time, is_alone=not clauses))
    elif not memory:
        clauses = [_describe_row(rows[0])]
    missing = len(by_pair) - len(whole)
    if whole and missing:
        clauses.append(f"in {missing} of {len(by_pair)} pairs a cell did not complete")
    return "; ".join(clauses)


def _rank_pair(rows: Sequence[ComparisonRow]) -> tuple[float, ...]:
    """Return how far apart memory is found to be, then how far time; of cells that did not
    complete, whether one of the two got further."""
    if rows[0].metric == OUTCOME:
        return float(rows[0].verdict is not RowVerdict.NOT_COMPARABLE), 0.0
    ranks = []
    for row in _find_headlines(rows):
        if row is None or row.verdict not in _APART:
            ranks.append(0.0)
        else:
            ranks.append(abs(math.log(row.ratio)) if row.ratio and row.ratio > 0 else math.inf)
    return tuple(ranks)


def _find_headlines(
    rows: Sequence[ComparisonRow],
) -> tuple[ComparisonRow | None, ComparisonRow | None]:
    """Return the rows that speak for memory and for time: peak memory and the steady step, or else
    the first of their kind."""

    def find(is_kind: Callable[[Metric], bool]) -> ComparisonRow | None:
        ours = [row for row in rows if row.metric != OUTCOME and is_kind(METRICS[row.metric])]
        return next((row for row in ours if row.metric in HEADLINES), ours[0] if ours else None)

    return find(lambda metric: metric.is_memory), find(lambda metric: metric.is_time)


def _name_metric(row: ComparisonRow) -> str:
    metric = METRICS[row.metric]
    return metric.noun or metric.label


def _describe_place(row: ComparisonRow) -> str:
    """Return where in the grid the pair stands: ` at while_loop, batch 512`, or nothing."""
    words = [name_value(name, value) for name, value in row.held.items()]
    return f" at {', '.join(words)}" if words else ""


def _describe_memory(row: ComparisonRow) -> str:
    is_settled = row.verdict in (*_APART, RowVerdict.SAME)
    if not (METRICS[row.metric].noun and row.ratio and is_settled):
        return _describe_row(row)
    amount = "as much" if row.verdict is RowVerdict.SAME else _describe_amount(row.ratio)
    than = "as" if amount.endswith("as much") else "than"
    needs = f"{row.candidate} needs {amount} {_name_metric(row)} {than}"
    return f"{needs} {row.baseline}{_describe_place(row)}"


def _describe_time(row: ComparisonRow, is_alone: bool) -> str:
    """Return a clause on the pair that the clause before has named, unless it stands alone."""
    if row.metric != STEP_SECONDS:
        return _describe_row(row) if is_alone else f"{_name_metric(row)} is {row.explanation}"
    if row.verdict is RowVerdict.SAME:
        clause = f"time is the same within {row.same_within}"
    elif row.ratio and row.verdict in _APART:
        clause = f"a step takes {_describe_amount(row.ratio)} time"
    else:
        clause = f"time is {row.explanation}"
    named = f"{row.candidate} against {row.baseline}{_describe_place(row)}: "
    return named + clause if is_alone else clause


def _describe_row(row: ComparisonRow) -> str:
    one, other = (
        value if isinstance(value, str) else format_metric(row.metric, value)
        for value in (row.candidate_value, row.baseline_value)
    )
    return (
        f"{_name_metric(row)}{_describe_place(row)} of {row.candidate} is {one}, of "
        f"{row.baseline} {other}: {row.explanation}"
    )


def _describe_amount(ratio: float) -> str:
    """Return `3.1 times as much`, `12 % more` or `68 % less`."""
    if ratio >= 1.95:
        return f"{ratio:,.1f} times as much"
    share = abs(ratio - 1) * 100
    digits = f"{share:.2g}" if share < 99.5 else "over 99"
    return f"{digits} % {'less' if ratio < 1 else 'more'}"
