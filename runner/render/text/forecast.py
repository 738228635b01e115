"""The time that a plan will take: by its fields before it begins, by its trials once they run.

A trial that is still to run takes, by the first line that applies:

    what trials of its kind have taken in its run
    its run's memory trials, times what that kind has taken of other runs' memory trials
    what trials of its kind have taken in all runs
    a guess, by its run's memory trials or else by the fields: a range; and for the steps of a
    timing trial as many as it takes of the traced ones, if those were timed, or at most max_seconds
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runner.cell import TrialSpec
from runner.engine.run import Run

LOADING_SECONDS = 5.0
"""Until TensorFlow is loaded and the first child can be forked."""

_OWN_SECONDS = {"memory": 0.7, "timing": 0.4, "host": 20.0}
"""The time of a trial whose steps take next to nothing: a fork, the first op, the release."""

_GUESSES = {"timing": ((0.0, 0.5), (0.0, 1.0)), "host": ((2.0, 1.5), (10.0, 6.0))}
"""The least and the most that a trial may take: so many seconds, and so many of its run's memory
trials. Steps of a timing trial that are told to take a time of their own come on top."""


@dataclass
class _Mean:
    """A mean of what was seen; None of nothing."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total, self.count = self.total + value, self.count + 1

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None


@dataclass
class _Left:
    """The trials of one kind that are left, over all runs."""

    known_seconds: float = 0.0
    """Of runs that have had a trial of this kind."""
    based_seconds: float = 0.0
    """Of runs that have had none, but memory trials: as if each took as long as those."""
    based: int = 0
    """How many these are."""
    blind: int = 0
    """How many are of runs of which nothing is known."""
    least_step_seconds: float = 0.0
    most_step_seconds: float = 0.0
    """Of timing trials of which none is known: what their steps will take."""


@dataclass
class _RunAhead:
    """The trials that a run lacks, and what its others have taken."""

    most_step_seconds: float
    least_step_seconds: float = 0.0
    """What the steps of a timing trial will take."""
    missing: Counter[str] = field(default_factory=Counter)
    taken: dict[str, _Mean] = field(default_factory=lambda: defaultdict(_Mean))
    """By kind."""


class Forecast:
    """Counts what is left, and knows what trials have taken so far."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self.left = Counter[str]()
        """Trials by kind, with those that will be added if processes go on as the last one."""
        self._ahead: dict[int, _RunAhead] = {}
        self._left = defaultdict[str, _Left](_Left)
        self._taken = defaultdict[str, _Mean](_Mean)
        self._ratios = defaultdict[str, tuple[_Mean, _Mean]](lambda: (_Mean(), _Mean()))
        """By kind: what trials have taken, and what memory trials of their runs have."""
        self.add_runs(runs)

    def add_runs(self, runs: Iterable[Run]) -> None:
        """Count what more runs lack; of those begun before, their memory trials tell."""
        for run in runs:
            if id(run) in self._ahead:  # of one that is gone
                self._add(self._ahead[id(run)], -1)
            ahead = self._ahead[id(run)] = _RunAhead(run.experiment.measure.max_seconds)
            for trial in run.memory_trials:
                if trial.facts.seconds is not None:
                    ahead.taken["memory"].add(trial.facts.seconds)
            self.count_missing(run)

    def count_trial(self, run: Run, trial: TrialSpec, seconds: float) -> None:
        """Count one trial less, and learn how long its kind takes."""
        ahead = self._ahead[id(run)]
        self._add(ahead, -1)
        ahead.missing = Counter()
        ahead.taken[trial.kind].add(seconds)
        self._taken[trial.kind].add(seconds)
        base = ahead.taken["memory"].value
        if base is not None:
            ours, theirs = self._ratios[trial.kind]
            ours.add(seconds)
            theirs.add(base)
        self.count_missing(run)

    def count_traced_steps(self, run: Run, seconds: float) -> None:
        """Learn how long a run's timing trials take from what the steps of a memory trial took."""
        ahead, measure = self._ahead[id(run)], run.experiment.measure
        step_seconds = seconds / measure.memory_steps
        whole = min((measure.warmup_steps + measure.steps) * step_seconds, measure.max_seconds)
        self._add(ahead, -1)
        ahead.least_step_seconds = ahead.most_step_seconds = max(
            whole, measure.min_steps * step_seconds
        )
        self._add(ahead, 1)

    def count_missing(self, run: Run) -> None:
        """Count again what a run lacks: few trials or none where it has failed, and more where a
        graph's peak is not known yet."""
        ahead = self._ahead[id(run)]
        self._add(ahead, -1)
        ahead.missing = run.count_missing(is_decided=False)
        self._add(ahead, 1)

    def _add(self, ahead: _RunAhead, sign: int) -> None:
        """Add what a run lacks to the sums, or take it away: a line that is drawn between any two
        trials must not take as long as there are cells."""
        base = ahead.taken["memory"].value
        for kind, missing in ahead.missing.items():
            left, count, own = self._left[kind], sign * missing, ahead.taken[kind].value
            self.left[kind] += count
            if own is not None:
                left.known_seconds += count * own
                continue
            if kind == "timing":
                left.least_step_seconds += count * ahead.least_step_seconds
                left.most_step_seconds += count * ahead.most_step_seconds
            if base is None:
                left.blind += count
            else:
                left.based += count
                left.based_seconds += count * base

    @property
    def seconds(self) -> tuple[float, float]:
        """The least and the most that what is left will take, if steps keep to max_seconds; both
        the same once every kind of trial has been seen."""
        least = most = 0.0
        for kind, left in self._left.items():
            low, high = self._estimate(kind, left.based, left.based_seconds)
            blind_low, blind_high = self._estimate_blindly(kind, left.blind)
            least += left.known_seconds + low + blind_low
            most += left.known_seconds + high + blind_high
            if not self._taken[kind].count:
                least += left.least_step_seconds
                most += left.most_step_seconds
        return least, most

    def estimate_trials(self, trials: Mapping[str, float]) -> float:
        """Return what so many more trials would take, by kind, of runs that are not known yet."""
        return sum(sum(self._estimate_blindly(kind, count)) / 2 for kind, count in trials.items())

    def _estimate(self, kind: str, count: float, like_memory: float) -> tuple[float, float]:
        """Return what trials would take whose runs' memory trials would take `like_memory`."""
        ours, theirs = self._ratios[kind]
        if theirs.total:
            share = ours.total / theirs.total
            return share * like_memory, share * like_memory
        (least, low), (most, high) = _GUESSES.get(kind, ((0.0, 1.0), (0.0, 1.0)))
        return least * count + low * like_memory, most * count + high * like_memory

    def _estimate_blindly(self, kind: str, count: float) -> tuple[float, float]:
        """Return what trials would take of runs of which nothing is known."""
        if (mean := self._taken[kind].value) is not None:
            return count * mean, count * mean
        if kind != "memory" and (memory := self._taken["memory"].value) is not None:
            return self._estimate(kind, count, count * memory)
        return count * _OWN_SECONDS[kind], count * _OWN_SECONDS[kind]
