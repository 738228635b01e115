"""The time that a plan will take: by its fields before it begins, by its trials once they run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from runner.cell import TrialSpec
from runner.engine.run import Run

LOADING_SECONDS = 5.0
"""Until TensorFlow is loaded and the first child can be forked."""

_OWN_SECONDS = {"memory": 0.7, "timing": 0.4, "host": 20.0}
"""The time of a trial whose steps take next to nothing: a fork, the first op, the release."""


class Forecast:
    """Counts what is left, and knows what each kind of trial has taken so far."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._missing = {id(run): run.count_missing() for run in runs}
        self.left = sum(self._missing.values(), Counter[str]())
        self._taken = defaultdict[str, list[float]](list)
        steps = (
            self._missing[id(run)]["timing"] * run.experiment.measure.max_seconds for run in runs
        )
        self._timed_seconds = sum(steps) / (self.left["timing"] or 1)
        """The most that the steps of a timing trial will take, on average."""

    def count_trial(self, run: Run, trial: TrialSpec, seconds: float) -> None:
        """Count one trial less, and learn how long its kind takes."""
        self._taken[trial.kind].append(seconds)
        self.count_missing(run)

    def count_missing(self, run: Run) -> None:
        """Count again what a run lacks: few trials or none where it has failed, and more where a
        graph's peak is not known yet."""
        missing = run.count_missing()
        self.left.update(missing)
        self.left.subtract(self._missing.get(id(run), Counter()))
        self._missing[id(run)] = missing

    @property
    def seconds(self) -> tuple[float, float]:
        """The least and the most that what is left will take, if steps keep to max_seconds; both
        the same once every kind of trial has been seen."""
        least = most = 0.0
        for kind, count in self.left.items():
            if taken := self._taken[kind]:
                low = high = sum(taken) / len(taken)
            else:
                low = _OWN_SECONDS[kind]
                high = low + (self._timed_seconds if kind == "timing" else 0.0)
            least, most = least + count * low, most + count * high
        return least, most
