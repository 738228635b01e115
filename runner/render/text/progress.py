"""The progress of a measurement: first what was asked for, then one line in place.

It goes to stderr. A sweep is announced in a line, always; the line in place is drawn on a terminal
only, between trials (a single run's also at the phases of its memory trial), never during a timed
one. Elsewhere, as in CI's log, a line is printed now and then. The summaries go to stdout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from runner.analysis import estimate, repeatability
from runner.analysis.objective import Objective
from runner.analysis.selection import name_cell
from runner.cell import Plan
from runner.engine import events
from runner.engine.run import Run
from runner.metrics import (
    FIRST_CALL_SECONDS,
    HOST_PEAK,
    METRICS,
    STEP_SECONDS,
    TENSOR_PEAK,
    format_metric,
)
from runner.records import Phase, RepeatedCalls
from runner.render.text.console import redraw_line, understands_codes
from runner.render.text.forecast import LOADING_SECONDS, Forecast
from runner.render.words import count_things, format_duration

_BAR = 16

QUIET_SECONDS = 30.0
"""Off a terminal a line is printed between two trials once this long has passed since the last."""

WAITING_SECONDS = 5.0
"""The first figures of a run are shown before its summary if that is so far away."""

_FIRST_FIGURES = (TENSOR_PEAK, HOST_PEAK, STEP_SECONDS, FIRST_CALL_SECONDS)


def describe_plan(plan: Plan, runs: Sequence[Run]) -> str:
    """Return how many cells and trials there are, and how long they will take."""
    if search := plan.search:
        grid = count_things(len(plan.cells), "cell")
        space = grid if search.is_whole else "a space too large to list"
        most = f"in {search.n_trials} at most, {search.n_jobs} at a time"
        words = Objective(search.metrics, search.limits).words
        return f"a search {'of' if search.is_whole else 'in'} {space} {most}: {words}"
    forecast = Forecast(runs)
    left = sum(forecast.left.values())
    kinds = [f"{count} {kind}" for kind, count in sorted(forecast.left.items()) if count]
    cells = count_things(len(runs), "cell")
    trials = f"{count_things(left, 'trial')} ({', '.join(kinds) or 'all done'})"
    if begun := sum(run.done.total() for run in runs):
        cells += f", {sum(run.next is None for run in runs)} of them done"
        trials += f" of {begun + left} left"
    if not kinds:
        return f"{cells}, {trials}"
    least, most = (format_duration(LOADING_SECONDS + seconds) for seconds in forecast.seconds)
    time = f"about {least}" if least == most else f"about {least} to {most}"
    if cluster := plan.cluster:
        workers = count_things(cluster.workers, "worker", "workers")
        time += f" one after the other; {workers} of {cluster.address or cluster.cluster}"
    return f"{cells}, {trials}, {time}"


def describe_calls(calls: RepeatedCalls) -> str:
    """Return what a person can do about a program without a known step."""
    lines = [
        f"no step was found in {calls.seconds} s: no batch of Keras' fit or predict, and no update "
        "of an optimizer"
    ]
    if calls.steps:
        lines.append("  called again and again, the likeliest step first:")
        lines += [f"    scenario.step={step}" for step in calls.steps]
        lines.append(
            "  going on with the first; name another one if it is not your step"
            if calls.goes_on
            else "  name one of them, and each call of it is a step"
        )
    else:
        lines.append(
            "  the script's own thread waits, and what its other threads call is not seen"
            if calls.is_waiting
            else "  no function of yours that can be named was called again"
        )
        lines.append(
            "  put what the loop repeats into a function at the top of a file, call it from the "
            "script's own thread, and say scenario.step=MODULE:FUNCTION (__main__ is the script)"
        )
    return "\n".join(lines)


def _explain_added(run: Run) -> str:
    """Return why a memory trial is run that was not asked for; nothing of one that was."""
    if run.done["memory"] < run.evidence.memory:
        return ""
    if repeatability.has_differing(run.memory_trials):
        return ", as processes of this graph differ"
    return ", to see if this graph's peak repeats"


@dataclass
class Progress:
    """Trials and cells done, what failed, what runs now, time left."""

    plan: Plan | None = None
    """The plan; a sweep's is announced in a line."""
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    count_likely: Callable[[], Mapping[str, float]] = dict
    """How many trials of each kind, more or less, the source may ask for that it has not yet."""
    _forecast: Forecast = field(default_factory=Forecast)
    _cells: int = 0
    _cells_done: int = 0
    _failed: int = 0
    _open: set[int] = field(default_factory=set)
    """The runs that lack trials, by identity."""
    _done: int = 0
    _is_loaded: bool = False
    _is_announced: bool = False
    _is_traced: bool = False
    """The trial that runs is a memory trial."""
    _steps_began: float | None = None

    def on(self, event: events.Event) -> None:
        match event:
            case events.CellsOpened(runs):
                self._open_cells(runs)
            case events.ClusterOpened(address, dashboard, workers):
                pages = f"; its dashboard is at {dashboard}" if dashboard else ""
                pages += "" if workers else "; it has no worker yet"
                print(f"Dask's scheduler is {address}{pages}", file=self.stream, flush=True)
            case events.TrialStarted(run, trial) | events.TrialTaken(run, trial):
                total = run.done[trial.kind] + run.count_missing(is_decided=False)[trial.kind]
                total = max(total, trial.index + 1)  # a cluster's are counted when all have ended
                why = _explain_added(run) if trial.kind == "memory" else ""
                self._draw_begun(run, f"{trial.kind} {trial.index + 1}/{total}{why}")
                self._run, self._is_traced = run, trial.kind == "memory"
            case events.PhaseEntered(name):
                self._time_steps(name)
                if self._cells == 1:
                    self._draw(f"{self._what}, {name}")
            case events.StepsSought(run, calls):
                redraw_line("", self.stream)
                print(describe_calls(calls), file=self.stream, flush=True)
            case events.TrialEnded(run, trial, seconds):
                self._forecast.count_trial(run, trial, seconds)
                self._is_loaded = True
                self._done += 1
                if run.next is None:
                    self._end_cell(run)
                else:
                    self._print_first_figures(run, trial.kind)
            case events.RecordWritten(run, is_new=True):
                self._end_cell(run)  # a cluster's that was given up: no trial was its last
            case events.MeasurementEnded():
                self.close()

    def _open_cells(self, runs: Sequence[Run]) -> None:
        """Begin anew with each batch of cells that a source asks for."""
        if self.plan and self.plan.is_sweep and not self._is_announced:
            print(describe_plan(self.plan, runs), file=self.stream, flush=True)
        self._is_announced = True
        if not runs:
            return
        self._forecast.add_runs(runs)
        self._cells += len(runs)
        self._open |= {id(run) for run in runs}
        self._done += sum(run.done.total() for run in runs)
        for run in runs:
            if run.next is None:
                self._end_cell(run)
        if not self._is_loaded:
            self._drawn_at = self.clock()
            is_elsewhere = self.plan and self.plan.cluster
            self._draw("waiting for a worker" if is_elsewhere else "loading TensorFlow")

    def _draw_begun(self, run: Run, what: str) -> None:
        swept = run.sweep.swept if run.sweep else None
        name = name_cell(swept) if swept else run.experiment.scenario_name
        self._what = f"{name}: {what}"
        self._draw(self._what if self._is_loaded else f"{self._what}, loading TensorFlow")

    def _time_steps(self, phase: str) -> None:
        """Let the forecast learn from the steps of a memory trial, once the next phase begins."""
        now = self.clock()
        if phase == Phase.STEPS:
            self._steps_began = now
        elif self._steps_began is not None:
            if self._is_traced:
                self._forecast.count_traced_steps(self._run, now - self._steps_began)
            self._steps_began = None

    def _print_first_figures(self, run: Run, kind: str) -> None:
        """Print what a run's first trial of a kind has shown, if the summary is not near."""
        seconds = self._estimate_left()
        if self._cells > 1 or run.done[kind] > 1 or seconds < WAITING_SECONDS:
            return
        trials, spec = run.read_trials(), run.experiment.spec
        figures = [
            f"{METRICS[name].heading} {format_metric(name, values[0])}"
            for name in _FIRST_FIGURES
            if METRICS[name].source == kind
            and (values := estimate.list_samples(trials, name, spec))
        ]
        if figures:
            redraw_line("", self.stream)
            left = format_duration(seconds)
            said = f"in its first {kind} trial: {', '.join(figures)}; about {left} left"
            print(said, file=self.stream, flush=True)

    def _estimate_left(self) -> float:
        likely = self._forecast.estimate_trials(self.count_likely())
        return sum(self._forecast.seconds) / 2 + likely

    def _end_cell(self, run: Run) -> None:
        if id(run) in self._open:
            self._open.remove(id(run))
            self._forecast.count_missing(run)
            self._cells_done += 1
            self._failed += not run.outcome.completed

    def close(self) -> None:
        redraw_line("", self.stream)

    def _draw(self, what: str) -> None:
        on_terminal = understands_codes(self.stream)
        if not on_terminal and self.clock() - self._drawn_at < QUIET_SECONDS:
            return
        self._drawn_at = self.clock()
        left = sum(self._forecast.left.values())
        total = self._done + left
        filled = _BAR * self._done // total if total else _BAR
        bar = f"{'█' * filled}{'░' * (_BAR - filled)} " if on_terminal else ""
        parts = [f"{bar}{self._done}/{total} trials"]
        if self._cells > 1:
            parts.append(f"{self._cells_done}/{self._cells} cells")
        if self._failed:
            parts.append(f"{self._failed} failed")
        if self._is_loaded and left:
            parts.append(f"about {format_duration(self._estimate_left())} left")
        line = " · ".join([*parts, what])
        if on_terminal:
            redraw_line(line, self.stream)
        else:
            print(line, file=self.stream, flush=True)
