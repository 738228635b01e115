"""The search of one strategy by real runs: how a value is tried, and what is kept of it.

A strategy is a cell without the field that is varied. Each probe leaves its trials in a folder
below `probes/`, and a line in probes.jsonl; the answer leaves what any run leaves, in a folder of
its own, and its trials are those that it was found by.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner import schema
from runner.analysis import growth, repeatability, selection
from runner.cell import Cell
from runner.compose import composition
from runner.engine.dialogues import Dialogue
from runner.engine.requests import Evidence, Request
from runner.engine.run import Run
from runner.errors import BadInput
from runner.fit import search as searching
from runner.fit.bfc import Requests
from runner.fit.search import Attempt, FoundLimit, LimitSearch, PeakModel, Probe
from runner.fit.strategies import Strategy
from runner.metrics import format_bytes
from runner.records import Record, Status

PROBES_FILE = "probes.jsonl"
PROBES_FOLDER = "probes"

PROCESSES = 5
"""Where processes differ, the answer has fitted in as many."""


@dataclass
class Limit:
    """The state of one strategy's search, and its answer."""

    strategy: Strategy
    vary: str
    found: FoundLimit | None = None
    problem: str | None = None
    """The reason why there is no answer."""
    probes: list[Probe] = field(default_factory=list)
    trials: int = 0
    record: Record | None = None
    """The record of the run with the largest value."""
    folder: Path | None = None
    foreseen: int | None = None
    """The largest value, as far as the probes before tell."""
    foreseen_by: int = 0
    """How many of them that stands on."""

    @property
    def largest(self) -> int | None:
        """Return the answer, once its run is kept."""
        return self.found.largest if self.found and self.record else None

    @property
    def is_over(self) -> bool:
        """Return True once its search has come to its own end."""
        return self.record is not None or self.problem is not None

    @property
    def completed(self) -> int | None:
        """Return the largest value that has completed, whatever ended the search."""
        return max((probe.value for probe in self.probes if probe.fits), default=None)

    def stop(self, why: str) -> None:
        """Give no answer; what had completed is said all the same."""
        had = "nothing had completed before"
        if (largest := self.completed) is not None:
            fitting = [probe for probe in self.probes if probe.fits and probe.value == largest]
            how = "" if any(probe.whole for probe in fitting) else ", in its first trial"
            had = f"the largest that had completed is {self.vary}={largest}{how}"
        self.problem = f"{why}; {had}"

    @property
    def model(self) -> PeakModel | None:
        """Return how the peak follows from the value."""
        return searching.fit_model(self.probes)

    @property
    def title(self) -> str:
        """Return the strategy's name, and its model where there is one."""
        model = f": {write_model(self.model, self.vary)}" if self.model else ""
        return f"{self.strategy.name}{model}"

    @property
    def metrics(self) -> dict[str, float | None]:
        return self.record.metrics if self.record else {}

    def to_json(self) -> dict[str, Any]:
        """Return the answer as `fit --json` prints it."""
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


class ProbeFailed(Exception):
    """A probe ended in a way that says nothing of memory."""


@dataclass
class Prober:
    """Has values of one strategy tried, with one trial first and a whole run where that is asked
    for; each value in a folder of its own."""

    limit: Limit
    folder: Path
    places: dict[str, int] = field(default_factory=dict)
    """The value of each probe, by its folder."""
    latest: dict[int, Run] = field(default_factory=dict)
    """The last run with each value."""

    def try_value(self, attempt: Attempt) -> Generator[Sequence[Request], Sequence[Run], Probe]:
        """Return what came of a value; raise `ProbeFailed` where it says nothing of memory."""
        cell = self.make_cell(attempt.value)
        self.limit.foreseen, self.limit.foreseen_by = attempt.foreseen, attempt.runs
        whole = Evidence.from_measure(cell.experiment.measure, settles_peak=False)
        is_traced = cell.experiment.measure.host_limit_mb is None and whole.memory > 0
        first = Evidence(int(is_traced), int(not is_traced), 0, False, with_requests=is_traced)
        known = self.latest.get(attempt.value)
        # A value that a whole run has tried is tried once more: another process may end otherwise.
        if known is None or known.evidence != first:
            known = yield from self._run(cell, first, self._choose_place(attempt.value), attempt)
        probe = self._read_first_trial(attempt.value, known)
        self.limit.probes.append(probe)
        if probe.fits and (attempt.whole or probe.whole):
            wanted = replace(self._choose_evidence(known), with_requests=is_traced)
            run = yield from self._run(cell, wanted, known.request.place, attempt)
            probe = self.limit.probes[-1] = _add_whole_run(probe, run)
        self._note(probe, self.latest[attempt.value])
        return probe

    def make_cell(self, value: int) -> Cell:
        return composition.change_cell(
            self.limit.strategy.cell, self.limit.strategy.number, {self.limit.vary: value}
        )

    def keep_answer(self, value: int) -> Dialogue:
        """Keep the run with the largest value as any run is kept: it has all its trials."""
        probe, place = self.latest[value], str(self.limit.strategy.number)
        self.limit.folder = self.folder / place
        shutil.copytree(probe.folder, self.limit.folder, dirs_exist_ok=True)
        swept = {**self.limit.strategy.swept, self.limit.vary: str(value)}
        cell, evidence = self.make_cell(value), self._choose_evidence(probe)
        (run,) = yield [Request(cell, evidence, place, swept)]
        self.limit.record = run.get_record()

    def _choose_evidence(self, run: Run) -> Evidence:
        """Return the trials of a whole run: of a peak that may differ from process to process as
        many as are enough to say that all of five fit, and no more."""
        experiment = run.experiment
        whole = Evidence.from_measure(experiment.measure, settles_peak=False)
        if whole.memory and repeatability.can_vary(run.memory_trials, experiment.execution):
            return replace(whole, memory=max(whole.memory, PROCESSES - whole.timing))
        return whole

    def _choose_place(self, value: int) -> str:
        """Return a folder that no probe of this search has taken."""
        first = f"{PROBES_FOLDER}/{self.limit.strategy.number}-{value}"
        times = sum(tried == value for tried in self.places.values())
        place = f"{first}-{times + 1}" if times else first
        self.places[place] = value
        return place

    def _run(
        self, cell: Cell, evidence: Evidence, place: str, attempt: Attempt
    ) -> Generator[Sequence[Request], Sequence[Run], Run]:
        before = self.latest.get(self.places[place])
        counted = before.done.total() if before and before.request.place == place else 0
        (run,) = yield [Request(cell, evidence, place, is_kept=False)]
        self.limit.trials += run.done.total() - counted
        self.latest[self.places[place]] = run
        is_expected = run.outcome.is_crash and attempt.fits is False
        if run.outcome.status not in (Status.COMPLETED, Status.OUT_OF_MEMORY) and not is_expected:
            raise ProbeFailed(f"{self.limit.vary}={self.places[place]} {run.outcome.brief}")
        return run

    def _read_first_trial(self, value: int, run: Run) -> Probe:
        """Return what the first trial says: of memory; under a limit on the host's, which a tracer
        would break, of time. `whole` in it means that more trials are needed to tell."""
        if not run.outcome.completed:
            return Probe(value, fits=False, crash=_read_crash(run))
        trial = run.read_trials()[0]
        if trial.kind == "timing":
            return Probe(value, fits=True, whole=self.limit.strategy.cap_bytes is not None)
        peak = trial.facts.tensor_peak_bytes
        grown = growth.judge_tensors(trial)
        rate = (grown and grown.bytes_per_step) or 0.0
        if rate > 0 and peak is not None:
            measure = run.experiment.measure
            more = max(0, measure.warmup_steps + measure.steps - measure.memory_steps)
            return Probe(value, fits=True, peak_bytes=round(peak + rate * more), whole=True)
        peaks = trial.steps.tensor_peak_bytes
        on_gpu = (trial.facts.device or "").startswith("GPU")
        sequence = trial.facts.requests
        return Probe(
            value,
            fits=True,
            peak_bytes=peak,
            requests=Requests.of(sequence, grows=not on_gpu) if sequence else None,
            whole=self.limit.vary.startswith("measure.") or peak is None,
            varies=bool(peaks) and not searching.PEAKS.same(peaks),
        )

    def _note(self, probe: Probe, run: Run) -> None:
        last = run.read_trials()[-1]
        line = {
            "strategy": self.limit.strategy.name,
            "value": probe.value,
            "fits": probe.fits,
            "whole_run": probe.whole,
            "tensor_peak_bytes": probe.peak_bytes,
            "phase": last.outcome.phase,
            "reason": last.outcome.reason,
            "out_of_memory": last.facts.out_of_memory,
        }
        with (self.folder / PROBES_FILE).open("ab") as file:
            file.write(schema.encode(line) + b"\n")


def _add_whole_run(probe: Probe, run: Run) -> Probe:
    """Return what a whole run says of a value whose first trial fitted."""
    if not run.outcome.completed:
        return Probe(probe.value, fits=False, whole=True, crash=_read_crash(run))
    peaks = [one.facts.tensor_peak_bytes for one in run.memory_trials]
    known = [peak for peak in (probe.peak_bytes, *peaks) if peak is not None]
    return replace(probe, whole=True, peak_bytes=max(known, default=None))


def _read_crash(run: Run) -> str | None:
    return run.outcome.reason if run.outcome.is_crash else None


def search_limit(prober: Prober, most: int) -> Dialogue:
    """Find the largest value of a strategy, and keep the run with it."""
    limit = prober.limit
    experiment = limit.strategy.cell.experiment
    if not experiment.supported:
        limit.problem = f"unsupported: {experiment.unsupported_reason}"
        return
    start = experiment.fields[limit.vary]
    is_batch = limit.vary == "batch_size"
    attempts = LimitSearch(limit.strategy.cap_bytes, most, is_batch).run(start)
    try:
        attempt = next(attempts)
        while True:
            attempt = attempts.send((yield from prober.try_value(attempt)))
    except StopIteration as end:
        limit.found = end.value
    except (ProbeFailed, BadInput) as problem:
        limit.stop(f"stopped: {str(problem).splitlines()[0]}")
        return
    assert limit.found is not None
    if limit.found.largest is None:
        reason = prober.latest[1].outcome.reason or ""
        limit.problem = f"1 does not fit: {reason.splitlines()[0]}"
        return
    yield from prober.keep_answer(limit.found.largest)


def write_model(model: PeakModel, vary: str) -> str:
    """Return `12.4 MB + 0.83 MB per example`; `roughly` where the peaks follow no such law."""
    name = vary.rpartition(".")[2]
    unit = "example" if vary == "batch_size" else name.removesuffix("s")
    linear = f" {_write_signed(model.linear)} per {unit}" if abs(model.linear) >= 1 else ""
    square = f" {_write_signed(model.square)} per {unit} squared" if model.square else ""
    text = format_bytes(model.constant) + (linear + square or f" whatever {name} is")
    if model.instead is None:
        return text
    return f"{text}, roughly ({model.instead.describe(selection.shorten_field(vary))})"


def _write_signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {format_bytes(abs(value))}"
