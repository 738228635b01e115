"""What a person should take away from a comparison, in a sentence. Core: standard library only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from runner.judging.comparison import OUTCOME, Comparison, Row, Verdict
from runner.judging.selection import Pair, said
from runner.metrics import METRICS, readable

_HEADLINES = ("tensor_peak_bytes", "step_seconds")


def sentence(comparison: Comparison) -> str:
    """What a person should take away: the pair that memory, or else time, tells apart furthest."""
    by_pair: dict[int, list[Row]] = {}
    for row in comparison.rows:
        by_pair.setdefault(id(row.pair), []).append(row)
    whole = [rows for rows in by_pair.values() if rows[0].metric != OUTCOME]
    rows = max(reversed(whole or list(by_pair.values())), key=_decisiveness)
    pair = rows[0].pair
    memory, time = _headline(rows, _is_memory), _headline(rows, _is_time)
    clauses = [_memory_clause(memory)] if memory else []
    if rows[0].metric == OUTCOME:
        clauses = [rows[0].reason + _place(pair)]
    elif time:
        clauses.append(_time_clause(time, alone=not clauses))
    elif not memory:
        clauses.append(_any_clause(rows[0]))
    missing = len(by_pair) - len(whole)
    if whole and missing:
        clauses.append(f"in {missing} of {len(by_pair)} pairs a cell did not complete")
    return "; ".join(clauses)


def _headline(rows: Sequence[Row], kind: Callable[[Row], bool]) -> Row | None:
    """Of the rows of a kind, the one that speaks for it: peak memory, the steady step."""
    ours = [row for row in rows if kind(row)]
    return next((row for row in ours if row.metric in _HEADLINES), ours[0] if ours else None)


def _is_memory(row: Row) -> bool:
    return row.metric != OUTCOME and METRICS[row.metric].is_memory


def _is_time(row: Row) -> bool:
    return row.metric != OUTCOME and METRICS[row.metric].is_time


def _decisiveness(rows: Sequence[Row]) -> tuple[float, float]:
    """How far apart memory is found to be, then how far time; of cells that did not complete,
    whether one of the two got further."""
    if rows[0].metric == OUTCOME:
        return float(rows[0].verdict is not Verdict.NOT_COMPARABLE), 0.0

    def apart(row: Row | None) -> float:
        if row is None or row.verdict not in (Verdict.BETTER, Verdict.WORSE):
            return 0.0
        return abs(math.log(row.ratio)) if row.ratio and row.ratio > 0 else math.inf

    return apart(_headline(rows, _is_memory)), apart(_headline(rows, _is_time))


_NOUN = {
    "tensor_peak_bytes": "peak memory",
    "host_peak_bytes": "peak host memory",
    "tensor_step_peak_bytes": "memory in a step",
    "step_seconds": "time",
}


def _noun(row: Row) -> str:
    return _NOUN.get(row.metric, METRICS[row.metric].label)


def _place(pair: Pair) -> str:
    """Where in the grid the pair stands: ` at while_loop, batch 512`, or nothing."""
    words = [said(name, value) for name, value in pair.held.items()]
    return f" at {', '.join(words)}" if words else ""


def _memory_clause(row: Row) -> str:
    if row.metric not in _NOUN or not row.ratio:
        return _any_clause(row)
    one, other = row.pair.candidate_name, row.pair.baseline_name
    if row.verdict is Verdict.SAME:
        return f"{one} needs as much {_noun(row)} as {other}{_place(row.pair)}"
    if row.verdict in (Verdict.BETTER, Verdict.WORSE):
        return f"{one} needs {_amount(row.ratio)} {_noun(row)} than {other}{_place(row.pair)}"
    return _any_clause(row)


def _time_clause(row: Row, alone: bool) -> str:
    """Of the pair that the clause before has named, unless it stands alone."""
    if row.metric != "step_seconds":
        return _any_clause(row) if alone else f"{_noun(row)} is {row.explanation}"
    if row.verdict is Verdict.SAME:
        clause = f"time is the same within {row.same_within}"
    elif row.ratio and row.verdict in (Verdict.BETTER, Verdict.WORSE):
        clause = f"a step takes {_amount(row.ratio)} time"
    else:
        clause = f"time is {row.explanation}"
    pair = row.pair
    named = f"{pair.candidate_name} against {pair.baseline_name}{_place(pair)}: "
    return named + clause if alone else clause


def _any_clause(row: Row) -> str:
    one, other = (readable(row.metric, value) for value in (row.candidate, row.baseline))
    pair = row.pair
    return (
        f"{_noun(row)}{_place(pair)} of {pair.candidate_name} is {one}, of {pair.baseline_name} "
        f"{other}: {row.explanation}"
    )


def _amount(ratio: float) -> str:
    """`3.1 times less`, or `12 % more`."""
    less = ratio < 1
    times = 1 / ratio if less else ratio
    if times >= 1.95:
        return f"{times:,.1f} times {'less' if less else 'more'}"
    return f"{abs(ratio - 1) * 100:.2g} % {'less' if less else 'more'}"
