"""What a person sees while it works: what was asked for, then one line in place.

It goes to stderr. A sweep is announced in a line, always; the line in place is drawn on a terminal
only, between trials (a single run's also at the phases of its memory trial), never during a timed
one. Elsewhere, as in CI's log, a line is printed now and then. What came of it is `summary`'s, on
stdout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from runner.judging.objective import Objective
from runner.judging.selection import SPEAKING
from runner.plan import Assignment, Plan, Search
from runner.running.lifecycle import Run
from runner.terminal.console import draws, in_place, readable_duration
from runner.terminal.forecast import LOADING_SECONDS, Forecast

_BAR = 16

QUIET_SECONDS = 30.0
"""Off a terminal a line is printed between two trials once this long has passed since the last."""


def swept_words(swept: Mapping[str, Any]) -> str:
    """A cell as its sweep tells it from the others: `while_loop batch_size=32`."""
    words = [
        str(value) if key in SPEAKING else f"{key}={value}"
        for key, value in swept.items()
        if value is not None
    ]
    return " ".join(words).replace("scenario.", "")


def announcement(plan: Plan, runs: Sequence[Run]) -> str:
    """Cells, trials, time: before it starts."""
    if plan.search:
        return _searched(plan, plan.search)
    forecast, planned = Forecast(runs), sum(len(run.assignments) for run in runs)
    kinds = [f"{count} {kind}" for kind, count in sorted(forecast.left.items()) if count]
    trials = f"{sum(forecast.left.values())} trials ({', '.join(kinds) or 'all done'})"
    cells = f"{len(runs)} cells"
    begun = sum(run.done for run in runs)
    if begun:
        done = sum(run.next is None for run in runs)
        cells, trials = f"{cells}, {done} of them done", f"{trials} of {planned} left"
    if not kinds:
        return f"{cells}, {trials}"
    least, most = (readable_duration(LOADING_SECONDS + each) for each in forecast.seconds)
    time = f"about {least}" if least == most else f"about {least} to {most}"
    if plan.launcher:
        return f"{cells}, {trials}, {time} one after the other; {plan.launcher} runs them elsewhere"
    return f"{cells}, {trials}, {time}"


def _searched(plan: Plan, search: Search) -> str:
    """What it looks for, and in how many cells."""
    of = f"of {len(plan.cells)} cells" if search.whole else "in a space of more cells than a grid's"
    most = f" in {search.most} at most, {search.at_once} at a time" if search.most else ""
    return f"a search {of}{most}: {Objective.of(plan.cells[0].search).words}"


@dataclass
class Progress:
    """Trials and cells done, what failed, what runs now, time left."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _cells: int = 0
    _cells_done: int = 0
    _failed: int = 0
    _done: int = 0
    _loaded: bool = False

    def announce(self, plan: Plan, runs: Sequence[Run]) -> None:
        if plan.is_sweep:
            print(announcement(plan, runs), file=self.stream, flush=True)

    def begins(self, runs: Sequence[Run]) -> None:
        """A search begins with each batch of cells anew."""
        self._forecast = Forecast(runs)
        self._cells += len(runs)
        over = [run for run in runs if run.next is None]
        self._cells_done += len(over)
        self._failed += sum(not run.outcome.completed for run in over)
        self._done += sum(run.done for run in runs)
        if not self._loaded:
            self._said_at = self.clock()
            self._draw("loading TensorFlow")

    def trial(self, run: Run, assignment: Assignment) -> None:
        number = sum(1 for each in run.assignments[: run.done + 1] if each.kind == assignment.kind)
        total = sum(1 for each in run.assignments if each.kind == assignment.kind)
        swept = (run.sweep or {}).get("swept")
        name = swept_words(swept) if swept else run.experiment.scenario_name
        self._what = f"{name}: {assignment.kind} {number}/{total}"
        self._draw(self._what if self._loaded else f"{self._what}, loading TensorFlow")

    def phase(self, name: str) -> None:
        if self._cells == 1:
            self._draw(f"{self._what}, {name}")

    def ended(self, run: Run, assignment: Assignment, seconds: float) -> None:
        """The first trial's time is TensorFlow's loading as well, and teaches nothing."""
        own = seconds if self._loaded else max(0.0, seconds - LOADING_SECONDS)
        self._forecast.ended(run, assignment, own)
        self._loaded = True
        self._done += 1
        if run.next is None:
            self._cells_done += 1
            self._failed += not run.outcome.completed

    def close(self) -> None:
        in_place("", self.stream)

    def _draw(self, what: str) -> None:
        on_terminal = draws(self.stream)
        if not on_terminal and self.clock() - self._said_at < QUIET_SECONDS:
            return
        self._said_at = self.clock()
        left = sum(self._forecast.left.values())
        total = self._done + left
        filled = _BAR * self._done // total if total else _BAR
        bar = f"{'█' * filled}{'░' * (_BAR - filled)} " if on_terminal else ""
        parts = [f"{bar}{self._done}/{total} trials"]
        if self._cells > 1:
            parts.append(f"{self._cells_done}/{self._cells} cells")
        if self._failed:
            parts.append(f"{self._failed} failed")
        if self._loaded and left:
            parts.append(f"about {readable_duration(sum(self._forecast.seconds) / 2)} left")
        line = " · ".join([*parts, what])
        if on_terminal:
            in_place(line, self.stream)
        else:
            print(line, file=self.stream, flush=True)
