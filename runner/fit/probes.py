"""The largest value that fits, by real runs: what a probe is, and what is kept of the search.

A strategy is a cell without the field that is varied; its search is `fitting`'s. Probes that are
not the answer leave a line each in probes.jsonl; the answer leaves what any run leaves, in a folder
of its own, and its trials are the search's own last ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.composing import composition
from runner.errors import BadInput
from runner.fit import search as fitting
from runner.fit.search import Found, Model, Probe, Search
from runner.judging import growth, repeats, selection
from runner.metrics import readable_bytes
from runner.plan import Assignment, Planned
from runner.records import Record, Status, Trial
from runner.running import lifecycle
from runner.running.company import Turns
from runner.running.lifecycle import Run
from runner.trial.measure import requests

PROBES_FILE = "probes.jsonl"


@dataclass(frozen=True)
class Strategy:
    """One way to run it, and the name that tells it from the others."""

    number: int
    name: str
    cell: Planned
    swept: Mapping[str, str]

    @property
    def cap_bytes(self) -> int | None:
        limit_mb = self.cell.experiment.device.memory_limit_mb
        return None if limit_mb is None else limit_mb * 2**20


@dataclass
class Limit:
    """What came of one strategy."""

    strategy: Strategy
    vary: str
    found: Found | None = None
    problem: str | None = None
    """Why there is no answer."""
    probes: list[Probe] = field(default_factory=list)
    trials: int = 0
    record: Record | None = None
    """Of the run with the largest value."""
    folder: Path | None = None

    @property
    def largest(self) -> int | None:
        return self.found.largest if self.found and self.record else None

    @property
    def completed(self) -> int | None:
        """The largest value that has completed, whatever ended the search."""
        return max((probe.value for probe in self.probes if probe.fits), default=None)

    def stop(self, why: str) -> None:
        """There is no answer; what had completed is said all the same."""
        self.problem = f"{why}; {_largest_so_far(self)}"

    @property
    def model(self) -> Model | None:
        return fitting.model(self.probes)

    @property
    def metrics(self) -> dict[str, float | None]:
        return self.record.metrics if self.record else {}

    def to_json(self) -> dict[str, Any]:
        model = self.model
        return {
            "strategy": self.strategy.name,
            "vary": self.vary,
            "largest": self.largest,
            "largest_completed": self.completed,
            "metric_at_largest": self.metrics,
            "trials": self.trials,
            "fails": self.found.fails if self.found else None,
            "varies": self.found.varies if self.found else None,
            "reason": self.problem,
            "model": model and [model.constant, model.linear, model.square],
            "record": self.folder and str(self.folder),
        }


class NotMemory(Exception):
    """A probe ended in a way that says nothing of memory."""


@dataclass
class _RealProber:
    """Runs a value as a plain run does, one trial after the other, as far as is asked for."""

    limit: Limit
    turns: Turns
    folder: Path
    on_trial: Callable[[Limit, int, str], None]
    trials: dict[int, list[Trial]] = field(default_factory=dict)
    """Of each value the latest run's."""

    def __call__(self, value: int, *, whole: bool) -> Probe:
        cell = self.cell(value)
        wanted = lifecycle.assignments(cell.experiment)
        done = self.trials.setdefault(value, [])
        if len(done) >= len(wanted):  # once more, then
            done.clear()
        probe = self._first(value, cell, wanted[0], done)
        if probe.fits and (whole or probe.whole):
            probe = self._rest(probe, wanted, done)
        self.limit.probes.append(probe)
        self._note(probe, done)
        return probe

    def cell(self, value: int) -> Planned:
        return composition.changed(
            self.limit.strategy.cell, self.limit.strategy.number, {self.limit.vary: value}
        )

    def _first(self, value: int, cell: Planned, assignment: Assignment, done: list[Trial]) -> Probe:
        """The first trial: of memory; under a limit on the host's, which a tracer would break, of
        time. `whole` in what it returns: that more trials are needed to tell."""
        known = next((p for p in reversed(self.limit.probes) if p.value == value and done), None)
        if known is not None:
            return known
        traced = not assignment.is_timed
        trial = self._run(value, replace(assignment, with_requests=traced))
        sequence = trial.facts.pop("requests", None)
        done.append(trial)
        if not trial.outcome.completed:
            return Probe(value, fits=False)
        if assignment.is_timed:
            return Probe(value, fits=True, whole=self.limit.strategy.cap_bytes is not None)
        peak = trial.facts.get("tensor_peak_bytes")
        rate = _growth(trial)
        if rate > 0 and peak is not None:
            measure = cell.experiment.measure
            more = max(0, measure.warmup_steps + measure.steps - measure.memory_steps)
            return Probe(value, fits=True, peak_bytes=round(peak + rate * more), whole=True)
        on_gpu = str(trial.facts["device"]).startswith("GPU")
        asked = requests.from_json(sequence, grows=not on_gpu) if sequence else None
        needs_more = self.limit.vary.startswith("measure.") or peak is None
        return Probe(
            value,
            fits=True,
            peak_bytes=peak,
            requests=asked,
            whole=needs_more,
            varies=_varies(trial),
        )

    def _rest(self, probe: Probe, wanted: Sequence[Assignment], done: list[Trial]) -> Probe:
        """All of a whole run; of a graph, whose peak is drawn anew in each process, as many memory
        trials as a run takes."""
        missing = list(wanted[len(done) :])
        execution = wanted[0].experiment.execution
        while missing or repeats.needs_more(done, execution):
            memory = len(repeats.completed_memory(done))
            another = Assignment(wanted[0].experiment, "memory", memory)
            done.append(self._run(probe.value, missing.pop(0) if missing else another))
            if not done[-1].outcome.completed:
                return Probe(probe.value, fits=False, whole=True)
        peaks = [one.facts.get("tensor_peak_bytes") for one in repeats.completed_memory(done)]
        known = [peak for peak in (probe.peak_bytes, *peaks) if peak is not None]
        return replace(probe, whole=True, peak_bytes=max(known, default=None))

    def _run(self, value: int, assignment: Assignment) -> Trial:
        self.limit.trials += 1
        self.on_trial(self.limit, value, assignment.kind)
        trial = self.turns.run(assignment)
        if trial.outcome.status not in (Status.COMPLETED, Status.OUT_OF_MEMORY):
            raise NotMemory(f"{self.limit.vary}={value} {trial.outcome.brief}")
        return trial

    def _note(self, probe: Probe, done: Sequence[Trial]) -> None:
        outcome = done[-1].outcome
        line = {
            "strategy": self.limit.strategy.name,
            "value": probe.value,
            "fits": probe.fits,
            "whole_run": probe.whole,
            "tensor_peak_bytes": probe.peak_bytes,
            "phase": outcome.phase,
            "reason": outcome.reason,
            "out_of_memory": done[-1].facts.get("out_of_memory"),
        }
        with (self.folder / PROBES_FILE).open("a") as file:
            file.write(json.dumps(line) + "\n")


def search(
    limit: Limit,
    most: int,
    turns: Turns,
    folder: Path,
    machine: Mapping[str, Any],
    on_trial: Callable[[Limit, int, str], None],
) -> None:
    """Find the largest value of a strategy, and keep the run with it."""
    experiment = limit.strategy.cell.experiment
    if not experiment.supported:
        limit.problem = f"unsupported: {experiment.unsupported_reason}"
        return
    prober = _RealProber(limit, turns, folder, on_trial)
    start = selection.fields(experiment.spec)[limit.vary]
    try:
        limit.found = Search(prober, limit.strategy.cap_bytes, most).run(start)
    except (NotMemory, BadInput) as problem:
        limit.stop(f"stopped: {str(problem).splitlines()[0]}")
        return
    if limit.found.largest is None:
        reason = prober.trials[1][-1].outcome.reason or ""
        limit.problem = f"not even 1 fits: {reason.splitlines()[0]}"
        return
    limit.folder = folder / str(limit.strategy.number)
    limit.record = _keep(prober, limit, machine)


def _largest_so_far(limit: Limit) -> str:
    """What a search that came to no answer has seen complete all the same."""
    completed = [probe for probe in limit.probes if probe.fits]
    if not completed:
        return "nothing had completed before"
    largest = max(completed, key=lambda probe: probe.value)
    whole = any(probe.whole for probe in completed if probe.value == largest.value)
    how = "" if whole else ", in its first trial"
    return f"the largest that had completed is {limit.vary}={largest.value}{how}"


def _keep(prober: _RealProber, limit: Limit, machine: Mapping[str, Any]) -> Record:
    """The run with the largest value, made of the trials that it was found by."""
    assert limit.found is not None
    assert limit.found.largest is not None
    assert limit.folder is not None
    value = limit.found.largest
    run: Run = lifecycle.open_run(prober.cell(value), limit.folder, _tag(limit, value))
    for trial in prober.trials[value]:
        lifecycle.add_trial(run, trial)
    return lifecycle.close_run(run, machine)


def _tag(limit: Limit, value: int) -> dict[str, Any]:
    """What a sweep's cell says of its sweep, of a fit."""
    assert limit.folder
    return {
        "id": "-".join(limit.folder.parts[-3:-1]),
        "cell": limit.strategy.number,
        "swept": {**limit.strategy.swept, limit.vary: str(value)},
        "launcher": "basic",
        "in_rounds": False,
    }


def _growth(trial: Trial) -> float:
    found = growth.of_tensors(trial)
    return (found.bytes_per_step or 0.0) if found else 0.0


def _varies(trial: Trial) -> bool:
    """Whether one steady step takes more than another, by more than counts as the same."""
    peaks = trial.steps.get("tensor_peak_bytes", [])
    return bool(peaks) and not fitting.PEAKS.same(peaks)


def spelled(model: Model, vary: str) -> str:
    """`12.4 MB + 0.83 MB per example`; `roughly` where the peaks follow another law, or none."""
    name = vary.rpartition(".")[2]
    unit = "example" if vary == "batch_size" else name.removesuffix("s")
    linear = f" {_signed(model.linear)} per {unit}" if abs(model.linear) >= 1 else ""
    square = f" {_signed(model.square)} per {unit} squared" if model.square else ""
    text = readable_bytes(model.constant) + (linear + square or f" whatever {name} is")
    if model.instead is None:
        return text
    return f"{text}, roughly ({model.instead.words(selection.short(vary))})"


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {readable_bytes(abs(value))}"
