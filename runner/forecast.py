"""How long a plan will take: from its fields before it begins, from its own trials once they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from runner.isolation.worker import Assignment
from runner.lifecycle import Run

LOADING_SECONDS = 5.0
"""Until TensorFlow is loaded and the first child can be forked."""

_OWN_SECONDS = {"memory": 0.7, "timing": 0.4}
"""What a trial takes where its steps take next to nothing: a fork, the first op, the release."""


class Forecast:
    """Counts what is left, and knows what each kind of trial has taken so far."""

    def __init__(self, runs: Sequence[Run]) -> None:
        ahead = [each for run in runs for each in _ahead(run)]
        self.left = Counter(each.kind for each in ahead)
        self._most = Counter[str]()
        for each in ahead:
            self._most[each.kind] += _most_seconds(each)
        self._planned = Counter(self.left)
        self._taken = Counter[str]()
        self._seen = Counter[str]()

    def ended(self, run: Run, assignment: Assignment, seconds: float) -> None:
        """One trial less; and where its cell has failed, none of the cell's others."""
        kind = assignment.kind
        self._taken[kind] += seconds
        self._seen[kind] += 1
        self.left[kind] -= 1
        if run.next is None:
            self.left.subtract(each.kind for each in run.assignments[run.done :])

    @property
    def seconds(self) -> tuple[float, float]:
        """The least and the most that what is left will take, if steps keep to max_seconds; both
        the same once every kind of trial has been seen."""
        least = most = 0.0
        for kind, count in self.left.items():
            if self._seen[kind]:
                mean = self._taken[kind] / self._seen[kind]
                least, most = least + count * mean, most + count * mean
            elif count:
                least += count * _OWN_SECONDS[kind]
                most += count * self._most[kind] / self._planned[kind]
        return least, most


def _ahead(run: Run) -> Iterable[Assignment]:
    return run.assignments[run.done :] if run.next is not None else ()


def _most_seconds(assignment: Assignment) -> float:
    steps = assignment.experiment.measure.max_seconds if assignment.kind == "timing" else 0.0
    return _OWN_SECONDS[assignment.kind] + steps
