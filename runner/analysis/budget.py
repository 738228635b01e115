"""Compare figures with what was allowed them.

Core: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runner.analysis.selection import Pair
from runner.errors import BadInput, suggest
from runner.metrics import BYTE_UNITS, METRICS, format_metric


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


_UNITS = {"": 1, **BYTE_UNITS, "s": 1, "ms": 1e-3, "us": 1e-6}


def read_budget(name: str, amount: float | str) -> tuple[str, float]:
    """Return a metric and how much of it is allowed, of words like `120MB`; raise `BadInput`."""
    if name not in METRICS:
        raise BadInput(f"--budget {name}: there is no such metric.", suggest(name, METRICS))
    metric = METRICS[name]
    if not metric.smaller_is_better:
        raise BadInput(
            f"--budget {name}: a budget is an upper limit, and more of this is better.",
            "Name a metric that should be small, such as tensor_peak_bytes.",
        )
    if not isinstance(amount, str):
        return name, float(amount)
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)", amount)
    unit = match[2] if match else None
    has_unit = unit in _UNITS and bool(unit) and unit.endswith("s") == metric.is_time
    needs_unit = metric.is_time or metric.is_memory
    if not match or not (has_unit if needs_unit and float(match[1]) else has_unit or not unit):
        raise BadInput(
            f"--budget {name}={amount}: {amount!r} is not a valid amount.",
            f"Write --budget {name}=120MB, in kB, MB, GB, KiB, MiB; seconds in s, ms, us.",
        )
    return name, float(match[1]) * _UNITS[match[2]]


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
