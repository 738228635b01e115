"""What a person sees in the terminal: progress while it works, a summary they read in five seconds.

Progress goes to stderr and only to a terminal; it is redrawn between trials (and at the phases of a
memory trial), never during a timed one. Results go to stdout; piped, they hold no control codes.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from runner.compose import Plan
from runner.isolation.worker import Assignment
from runner.lifecycle import LOG_FILE, Run, relative
from runner.metrics import METRICS, readable
from runner.records import RECORD_FILE, Record
from runner.sweep import Result
from runner.tracking import StoreProblem, Tracker


def styled(text: str, code: str, stream: TextIO) -> str:
    """`text` in bold or colour where a person looks on and has not declined (NO_COLOR)."""
    plain = not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[{code}m{text}\x1b[0m"


@dataclass
class Progress:
    """One line, redrawn in place: trials done of all, what runs now, time left."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)

    def begins(self, runs: Sequence[Run], folder: Path) -> None:
        self._total = sum(len(run.assignments) for run in runs)
        self._done = sum(run.done for run in runs)
        self._runs = runs
        self._seconds: list[float] = []
        self._line = ""
        self._draw("loading TensorFlow")

    def trial(self, run: Run, assignment: Assignment) -> None:
        number = sum(1 for each in run.assignments[: run.done + 1] if each.kind == assignment.kind)
        total = sum(1 for each in run.assignments if each.kind == assignment.kind)
        self._what = f"{run.experiment.scenario_name}: {assignment.kind} {number}/{total}"
        self._draw(self._what if self._seconds else f"{self._what}, loading TensorFlow")

    def phase(self, name: str) -> None:
        self._draw(f"{self._what}, {name}")

    def ended(self, run: Run, seconds: float) -> None:
        self._seconds.append(seconds)
        self._done += 1
        if run.next is None:  # what a failed cell will not run is no longer ahead
            self._total -= len(run.assignments) - run.done
        if all(each.next is None for each in self._runs):
            self._erase()

    def _draw(self, what: str) -> None:
        if not self.stream.isatty():
            return
        left = self._total - self._done
        ahead = ""
        if self._seconds and left:
            mean = sum(self._seconds) / len(self._seconds)
            ahead = f", about {readable_duration(mean * left)} left"
        text = f"[{self._done}/{self._total}] {what}{ahead}"
        width = shutil.get_terminal_size().columns - 1
        self._line = text[:width]
        self.stream.write(f"\r\x1b[K{self._line}")
        self.stream.flush()

    def _erase(self) -> None:
        if self.stream.isatty():
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def close(self) -> None:
        self._erase()


def readable_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def summary(record: Record, folder: Path, started: float, link: str | None) -> str:
    """One run: what ran, peak, growth, step time, first call against steady, and where it is."""
    out = sys.stdout
    spec = record.spec
    title = f"{spec['scenario']} · {spec['execution']} · batch {spec['batch_size']}"
    device = record.environment.get("device")
    lines = ["", styled(f"{title} · {device}" if device else title, "1", out)]
    parameters = ", ".join(f"{key}={_word(value)}" for key, value in spec["parameters"].items())
    lines.append(f"  {parameters}")
    lines.append(f"  {_evidence(record)}, {readable_duration(time.monotonic() - started)}")
    lines.append("")
    if record.outcome.completed:
        lines += _figures(record)
    else:
        where = f" in {record.outcome.phase}" if record.outcome.phase else ""
        text = f"{record.outcome.status.replace('_', ' ')}{where}: {record.outcome.reason}"
        lines.append(f"  {styled(text, '31', out)}")
    lines += ["", f"  record   {relative(folder / RECORD_FILE)}"]
    if not record.outcome.completed:
        lines.append(f"  log      {relative(folder / LOG_FILE)}")
    if link:
        lines.append(f"  MLflow   {link}")
    return "\n".join(lines)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _evidence(record: Record) -> str:
    counts = {kind: sum(1 for trial in record.trials if trial.kind == kind)
              for kind in ("memory", "timing")}  # fmt: skip
    parts = [f"{count} {kind}" for kind, count in counts.items() if count]
    return f"{' + '.join(parts) or 'no'} trials ({spec_measure(record)})"


def spec_measure(record: Record) -> str:
    return f"measure={record.spec['measure']['name']}"


def _figures(record: Record) -> list[str]:
    metrics, lines = record.metrics, []

    def row(label: str, name: str, remark: str = "") -> None:
        if name not in metrics:
            return
        value = readable(name, metrics[name])
        if metrics[name] is None:
            value, remark = "unknown", record.unavailable.get(name, "")
        lines.append(f"  {label:<13} {value:>12}   {remark}".rstrip())

    row("tensor peak", "tensor_peak_bytes", _exact(record))
    row("  of a step", "tensor_step_peak_bytes", "above what was live when it began")
    row("  growth", "tensor_growth_bytes_per_step", _grown(record))
    row("host peak", "host_peak_bytes", "above the trial's start")
    row("  growth", "host_growth_bytes_per_step")
    row("step", "step_seconds", _interval(record, "step_seconds"))
    row("first call", "first_call_seconds", _first_against_steady(record))
    row("examples", "examples_per_second")
    return lines


def _exact(record: Record) -> str:
    value = record.metrics.get("tensor_peak_bytes")
    exact = f"{value:,} bytes" if value is not None else ""
    low_high = record.intervals.get("tensor_peak_bytes")
    if low_high and low_high[0] != low_high[1]:
        exact += f" (over trials: {low_high[0]:,.0f} to {low_high[1]:,.0f})"
    return exact


def _grown(record: Record) -> str:
    return "" if record.metrics.get("tensor_growth_bytes_per_step") else "none"


def _interval(record: Record, name: str) -> str:
    bounds = record.intervals.get(name)
    if not bounds:
        return ""
    return f"95 %: {readable(name, bounds[0])} to {readable(name, bounds[1])}"


def _first_against_steady(record: Record) -> str:
    first, steady = record.metrics.get("first_call_seconds"), record.metrics.get("step_seconds")
    return f"{first / steady:,.1f} times a steady step" if first and steady else ""


def label(metric: str) -> str:
    return METRICS[metric].label


class Publishing:
    """The tracking store as a sweep sees it: problems become one warning, and nothing waits."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self.problem: StoreProblem | None = None
        self.link: str | None = None

    def wait_ready(self) -> None:
        self._tracker.wait_ready()

    def publish(self, folder: Path) -> None:
        answer = self._tracker.publish(folder)
        if isinstance(answer, StoreProblem):
            self.problem = self.problem or answer
        elif answer is not None:
            self.link = answer.page


def show(plan: Plan, result: Result, started: float, publishing: Publishing) -> None:
    """What came of it, on stdout; one warning on stderr where the store took nothing."""
    if plan.is_sweep:
        print(sweep_summary(plan, result, started))
    else:
        print(summary(result.records[0], result.folder, started, publishing.link))
    if publishing.problem:
        print(f"runner: {publishing.problem}", file=sys.stderr)
    if result.interrupted:
        print(f"runner: {result.interrupted}; what was finished is kept.", file=sys.stderr)


def sweep_summary(plan: Plan, result: Result, started: float) -> str:
    """One line a cell; `sweep` makes it better."""
    lines = []
    for record in result.records:
        swept = ", ".join(f"{key}={value}" for key, value in (record.sweep or {})["swept"].items())
        peak = record.metrics.get("tensor_peak_bytes")
        lines.append(
            f"{swept:<50} {record.outcome.status:<12} {readable('tensor_peak_bytes', peak)}"
        )
    return "\n".join([*lines, f"records in {relative(result.folder)}"])
