"""How long a plan will take: from its fields before it begins, from its trials once they run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runner.plan import Assignment
from runner.running.lifecycle import Run

LOADING_SECONDS = 5.0
"""Until TensorFlow is loaded and the first child can be forked."""

_OWN_SECONDS = {"memory": 0.7, "timing": 0.4, "host": 20.0}
"""What a trial takes where its steps take next to nothing: a fork, the first op, the release."""


@dataclass
class _Mean:
    count: int = 0
    total: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value

    @property
    def value(self) -> float:
        return self.total / self.count


class Forecast:
    """Counts what is left, and knows what each kind of trial has taken so far."""

    def __init__(self, runs: Sequence[Run]) -> None:
        ahead = [each for run in runs for each in _ahead(run)]
        self._ahead = {id(run): _kinds_ahead(run) for run in runs}
        self.left = Counter(each.kind for each in ahead)
        self._most: defaultdict[str, _Mean] = defaultdict(_Mean)
        for each in ahead:
            self._most[each.kind].add(_most_seconds(each))
        self._taken: defaultdict[str, _Mean] = defaultdict(_Mean)

    def ended(self, run: Run, assignment: Assignment, seconds: float) -> None:
        """One trial less; where its cell has failed, few or none of the cell's others; and more
        where a graph's peak is not known yet."""
        self._taken[assignment.kind].add(seconds)
        ahead = _kinds_ahead(run)
        self.left.update(ahead)
        self.left.subtract(self._ahead[id(run)])
        self._ahead[id(run)] = ahead

    @property
    def seconds(self) -> tuple[float, float]:
        """The least and the most that what is left will take, if steps keep to max_seconds; both
        the same once every kind of trial has been seen."""
        least = most = 0.0
        for kind, count in self.left.items():
            if self._taken[kind].count:
                taken = count * self._taken[kind].value
                least, most = least + taken, most + taken
            elif count:
                least += count * _OWN_SECONDS[kind]
                most += count * self._most[kind].value
        return least, most


def _kinds_ahead(run: Run) -> Counter[str]:
    return Counter(each.kind for each in _ahead(run))


def _ahead(run: Run) -> Iterable[Assignment]:
    return run.assignments[run.done :]


def _most_seconds(assignment: Assignment) -> float:
    steps = assignment.experiment.measure.max_seconds if assignment.kind == "timing" else 0.0
    return _OWN_SECONDS[assignment.kind] + steps
