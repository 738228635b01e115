"""A fit in the terminal: a line while it searches; then on stdout a table of strategies, their
models, the sentence that decides. Piped, it holds no control codes.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from runner.analysis import repeatability
from runner.engine.events import Event, MeasurementEnded, TrialEnded, TrialStarted
from runner.fit.fitting import FitSearch
from runner.fit.probes import Limit
from runner.fit.search import find_near_answer
from runner.metrics import (
    EXAMPLES_PER_SECOND,
    HEADLINES,
    METRICS,
    STEP_SECONDS,
    Rank,
    format_mebibytes,
    list_shown,
)
from runner.paths import shorten
from runner.records import LOG_FILE, RECORD_FILE
from runner.render.text.console import redraw_line, style_text, understands_codes
from runner.render.text.progress import QUIET_SECONDS
from runner.render.text.table import align_columns
from runner.render.words import count_things, format_duration

_COLUMNS = [
    METRICS[name]
    for name in reversed(list_shown(Rank.RUN))
    if name in HEADLINES or not METRICS[name].smaller_is_better
]
"""Columns for what is gained, and what it costs."""
_CLIMBS = 3
"""Trials that a search takes, more or less, until it is near."""

_FAILING_SECONDS = 10.0
"""TensorFlow's allocator tries for so long before it says that memory is out."""

_HEADS = ["strategy", "largest", *(metric.heading for metric in _COLUMNS), "trials", ""]


def summarize_fit(
    limits: Sequence[Limit], folder: Path, picture: Path | None, seconds: float
) -> str:
    """Return the table of strategies, their models, and the sentence that decides."""
    out = sys.stdout
    experiments = [limit.strategy.cell.experiment for limit in limits]
    caps = {experiment.device.memory_limit_mb or 0 for experiment in experiments} - {0}
    hosts = {experiment.measure.host_limit_mb or 0 for experiment in experiments} - {0}
    under = [f"device.memory_limit_mb: {format_mebibytes(cap)}" for cap in sorted(caps)]
    under += [f"measure.host_limit_mb: {format_mebibytes(host)}" for host in sorted(hosts)]
    title = f"largest {limits[0].vary} under {', '.join(under)}"
    lines = ["", style_text(title, "bold", out), *_list_table(limits)]
    models = [limit.title for limit in limits if limit.model]
    lines += ["", *models] if models else []
    if sentence := write_decision(limits):
        lines += ["", style_text(sentence, "bold", out)]
    trials = sum(limit.trials for limit in limits)
    lines += ["", f"{count_things(trials, 'trial')}, {format_duration(seconds)}"]
    if picture:
        lines.append(f"  picture  {shorten(picture)}")
    kept = [limit.folder / RECORD_FILE for limit in limits if limit.folder]
    lines += [f"  record   {shorten(file)}" for file in kept]
    lines.append(f"  log      {shorten(folder / LOG_FILE)}")
    return "\n".join(lines)


def _list_table(limits: Sequence[Limit]) -> list[str]:
    rows = [_HEADS]
    for limit in limits:
        figures = [
            metric.format(limit.metrics[metric.name]) if metric.name in limit.metrics else "-"
            for metric in _COLUMNS
        ]
        largest = "-" if limit.largest is None else f"{limit.largest:,}"
        rows.append(
            [limit.strategy.name, largest, *figures, str(limit.trials), _write_remark(limit)]
        )
    return align_columns(rows, range(1, len(_HEADS) - 1))


def _write_remark(limit: Limit) -> str:
    if limit.problem or limit.found is None:
        return limit.problem or ""
    if limit.found.fails is None:
        return "as many as were asked for; more may fit"
    fails, trials = limit.found.fails, limit.record.trials if limit.record else ()
    crash = next(
        (probe.crash for probe in limit.probes if probe.value == fails and probe.crash), None
    )
    ended = f" ({crash}, where memory was foreseen to run out)" if crash else ""
    if limit.found.varies:
        return (
            f"fits in all of {len(trials)} processes; {fails:,} ran out once{ended}: memory varies "
            "from step to step"
        )
    if limit.record and repeatability.can_vary(trials, limit.record.spec.execution):
        return f"fits in all of {len(trials)} processes; {fails:,} is out of memory{ended}"
    return f"{fails:,} is out of memory{ended}"


def write_near_answer(limit: Limit, low: int, high: int) -> str:
    """Return what is known before the exact answer."""
    tried = {probe.value: probe for probe in limit.probes}
    how = "" if tried[low].whole else " in its first trial"
    ends = "is" if high in tried else "is foreseen to be"
    return f"{limit.strategy.name}: {limit.vary}={low:,} fits{how}, {high:,} {ends} out of memory"


def estimate_search(limit: Limit, seconds: float, is_near: bool) -> float:
    """Return what is left of a search whose last trial took so long: trials up to the limit, unless
    that is near, one that fails, and those of a whole run. How much longer they take nearer to the
    limit depends on how much of a trial is its steps, which is not known: as the square root of the
    memory."""
    measure, cap = limit.strategy.cell.experiment.measure, limit.strategy.cap_bytes
    fitting = [probe for probe in limit.probes if probe.fits]
    peak = max((probe.peak_bytes or 0 for probe in fitting), default=0)
    longer = max(1.0, math.sqrt(cap / peak)) if cap and peak else 1.5
    climbs = 0 if is_near else max(1, _CLIMBS - len(fitting))
    fails = 0 if any(not probe.fits for probe in limit.probes) else _FAILING_SECONDS
    # A timing trial reads no trace.
    whole = 0 if any(probe.whole for probe in fitting) else 0.6 * measure.timing_processes
    return climbs * seconds * (1 + longer) / 2 + fails + (1 + whole) * seconds * longer


def write_decision(limits: Sequence[Limit]) -> str | None:
    """Return who fits most, how much more than who fits least, and at what cost."""
    known = [(limit.largest, limit) for limit in limits if limit.largest is not None]
    if len(known) < 2:
        return None
    largest, most = max(known, key=lambda one: one[0])
    smallest, least = min(known, key=lambda one: one[0])
    noun = "batch" if most.vary == "batch_size" else most.vary.rpartition(".")[2]
    if largest == smallest:
        seconds = {limit.strategy.name: limit.metrics.get(STEP_SECONDS) for limit in limits}
        timed = [(of_step, name) for name, of_step in seconds.items() if of_step]
        fastest = f"; {min(timed)[1]} is the fastest there" if len(timed) > 1 else ""
        return f"all of them fit the same {noun}, {largest:,}{fastest}"
    than = f" of {_name_difference(least, most)}" if len(limits) > 2 else ""
    # Where even the largest value that was asked for fits, more may.
    at_least = "at least " if most.found and most.found.fails is None else ""
    factor, winner = _format_factor(largest / smallest), _name_difference(most, least)
    cost = _write_cost(most, least)
    return f"{winner} fits {at_least}{factor} times the {noun}{than}{cost}"


def _write_cost(most: Limit, least: Limit) -> str:
    """Return the price: in examples, where they are varied; else in time, as a step does more."""
    metric = EXAMPLES_PER_SECOND if most.vary == "batch_size" else STEP_SECONDS
    ours, theirs = (limit.metrics.get(metric) for limit in (most, least))
    if not ours or not theirs:
        return ""
    if most.vary == "batch_size":
        return f" at {_format_factor(ours / theirs)} times the throughput"
    return f", with a step that takes {_format_factor(ours / theirs)} times as long"


def _format_factor(ratio: float) -> str:
    """Return two digits."""
    return f"{ratio:,.{max(0, 1 - math.floor(math.log10(ratio)))}f}"


def _name_difference(one: Limit, other: Limit) -> str:
    """Return what tells a strategy from the other: `recompute` for scenario.recompute=true."""
    words = []
    for key, value in one.strategy.swept.items():
        if other.strategy.swept.get(key) != value:
            name = key.rpartition(".")[2]
            words.append(name if value.lower() == "true" else f"{name}={value}")
    return " ".join(words)


@dataclass
class FitProgress:
    """A line before each trial, redrawn in place; where no terminal is, one before each probe. And
    an answer, as soon as one is known to 5 %, elsewhere if the search takes long."""

    search: FitSearch
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _began: float = 0.0
    _seconds: dict[int, float] = field(default_factory=dict)
    """What the last trial of each strategy took that completed, by the strategy's number."""
    _answered: set[int] = field(default_factory=set)
    _printed: set[tuple[int, int, str]] = field(default_factory=set)
    """The probes that have their line: strategy, value, kind of trial."""
    _foreseen: dict[int, tuple[int, tuple[int, int] | None]] = field(default_factory=dict)
    """Of each strategy: how many probes it had, and the answer that was near by then. To foresee
    one plays an allocator for some seconds."""

    def on(self, event: Event) -> None:
        """Draw the line anew before each trial."""
        self._began = self._began or self.clock()
        if isinstance(event, TrialStarted) and (probed := self.search.find_probe(event.run)):
            if understands_codes(self.stream) or self.clock() - self._began > QUIET_SECONDS:
                self._print_near_answers()
            self._draw(*probed, event.trial.kind)
        elif isinstance(event, TrialEnded) and (probed := self.search.find_probe(event.run)):
            if event.run.outcome.completed:
                self._seconds[probed[0].strategy.number] = event.seconds
        elif isinstance(event, MeasurementEnded):
            self.close()

    def _print_near_answers(self) -> None:
        for limit in self.search.limits:
            number, near = limit.strategy.number, self._find_near_answer(limit)
            if number not in self._answered and near is not None:
                self._answered.add(number)
                redraw_line("", self.stream)
                print(write_near_answer(limit, *near), file=self.stream, flush=True)

    def _find_near_answer(self, limit: Limit) -> tuple[int, int] | None:
        count, near = self._foreseen.get(limit.strategy.number, (0, None))
        if count != len(limit.probes):
            near = find_near_answer(limit.probes, limit.strategy.cap_bytes)
            self._foreseen[limit.strategy.number] = len(limit.probes), near
        return near

    def _estimate_left(self) -> float | None:
        """Return the seconds that all searches will take; None before a trial has completed."""
        open_limits = [limit for limit in self.search.limits if not limit.is_over]
        begun = [
            estimate_search(limit, seconds, bool(self._find_near_answer(limit)))
            for limit in open_limits
            if (seconds := self._seconds.get(limit.strategy.number)) is not None
        ]
        return sum(begun) * len(open_limits) / len(begun) if begun else None

    def _draw(self, limit: Limit, value: int, kind: str) -> None:
        fitting = max((probe.value for probe in limit.probes if probe.fits), default=None)
        failing = min((probe.value for probe in limit.probes if not probe.fits), default=None)
        parts = [f"{limit.strategy.name} · {limit.vary}={value:,}, {kind} trial"]
        if fitting is not None:
            parts.append(f"{fitting:,} fits")
        if failing is not None:
            parts.append(f"{failing:,} does not")
        if limit.foreseen is not None:
            runs = count_things(limit.foreseen_by, "run")
            parts.append(f"about {float(f'{limit.foreseen:.2g}'):,.0f} will, by {runs}")
        if understands_codes(self.stream):
            if (seconds := self._estimate_left()) is not None:
                parts.append(f"about {format_duration(seconds)} left")
            redraw_line(" · ".join(parts), self.stream)
        elif (probe := (limit.strategy.number, value, kind)) not in self._printed:
            self._printed.add(probe)
            print(" · ".join(parts), file=self.stream, flush=True)

    def close(self) -> None:
        """Take the line away."""
        redraw_line("", self.stream)
