"""Whether a figure stays within what was allowed it. A view of records.

Core: standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runner.judging.selection import Pair
from runner.metrics import readable


@dataclass(frozen=True)
class Over:
    """A figure of a candidate that is more than was allowed, or can't be told to be within."""

    pair: Pair
    metric: str
    most: float
    highest: float | None
    words: str

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "baseline": None,
            "candidate": self.pair.candidate_name,
            "held": self.pair.held,
            "candidate_value": self.highest,
            "budget": self.most,
            "verdict": "over budget",
            "reason": self.words,
            "candidate_id": self.pair.candidate.id,
            "fails": True,
        }


def over_budget(budgets: Sequence[tuple[str, float]], pairs: Sequence[Pair]) -> list[Over]:
    """What of the candidates is more than was allowed; the highest that was seen counts, and what
    is not known can't be told to be within."""
    found = []
    for pair in pairs:
        place = "".join(f" {name}={value}" for name, value in pair.held.items())
        for name, most in budgets:
            value = pair.candidate.metrics.get(name)
            high = None
            if value is None:
                why = pair.candidate.unavailable.get(name, "does not apply")
                said = f"can't be told ({why})"
            else:
                high = max(value, pair.candidate.intervals.get(name, (value, value))[1])
                if high <= most:
                    continue
                said = f"{readable(name, high)}, above {readable(name, most)}"
            words = f"{pair.candidate_name}{place}: {name} {said}"
            found.append(Over(pair, name, most, high, words))
    return found
