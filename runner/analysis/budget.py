"""Compare figures with what was allowed them.

Core: standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runner.analysis.selection import Pair
from runner.metrics import format_metric


@dataclass(frozen=True)
class OverBudget:
    """A figure above what was allowed, or not known to be within, as `compare --json` prints it."""

    metric: str
    candidate: str
    held: dict[str, Any]
    candidate_value: float | None
    """The highest that was seen."""
    budget: float
    reason: str
    candidate_id: str
    baseline: None = None
    verdict: str = "over budget"
    fails: bool = True


def list_over_budget(
    budgets: Sequence[tuple[str, float]], pairs: Sequence[Pair]
) -> list[OverBudget]:
    """Return the candidates' figures that are above their budget, or not known. A candidate that
    stands in several pairs counts once."""
    found = []
    for pair in {pair.candidate.id: pair for pair in reversed(pairs)}.values():
        name, record = pair.candidate_name, pair.candidate
        place = "".join(f" {field}={value}" for field, value in pair.held.items())
        for metric, most in budgets:
            value, high = record.metrics.get(metric), None
            if value is None:
                problem = f"unknown ({record.unavailable.get(metric, 'does not apply')})"
            else:
                high = max(value, record.intervals.get(metric, (value, value))[1])
                if high <= most:
                    continue
                problem = f"{format_metric(metric, high)}, above {format_metric(metric, most)}"
            reason = f"{name}{place}: {metric} {problem}"
            found.append(OverBudget(metric, name, pair.held_values, high, most, reason, record.id))
    return found
