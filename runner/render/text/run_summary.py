"""The result of a run, in five seconds of reading. Piped, it holds no control codes."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from runner import metrics
from runner.analysis import growth, selection
from runner.analysis.filling import describe_filling, find_filling
from runner.metrics import METRICS, STEP_SECONDS, TENSOR_PEAK, Rank, list_shown
from runner.paths import shorten
from runner.records import LOG_FILE, RECORD_FILE, Record
from runner.render import peak
from runner.render.text.console import style_text
from runner.render.words import (
    count_trials,
    describe_bound,
    describe_time,
    format_duration,
    format_figure,
    join_first,
)

_RETRACING = re.compile(
    r"\d+ out of the last \d+ calls to <function (?P<function>\S+).*? triggered tf\.function "
    r"retracing\."
)


def summarize_run(
    record: Record, folder: Path, seconds: float | None, is_plain: bool = False
) -> str:
    """Return what ran, peak, growth, step time, first call against steady, and where it is;
    `is_plain` where it is not for a terminal."""
    out = io.StringIO() if is_plain else sys.stdout
    outcome, device = record.outcome, record.environment.device
    title = " · ".join(filter(None, (selection.name_record(record), device)))
    parameters = record.spec.parameters.items()
    took = "" if seconds is None else f", {format_duration(seconds)}"
    lines = [
        "",
        style_text(title, "bold", out),
        f"  {', '.join(f'{key}={selection.format_word(value)}' for key, value in parameters)}",
        f"  {count_trials(record.trials)} (measure={record.spec.measure.name}){took}",
        *_describe_program(record),
        "",
    ]
    if not outcome.completed:
        lines.append(f"  {style_text(f'{outcome.words}: {outcome.reason}', 'red', out)}")
    known = {name for name, value in record.metrics.items() if value is not None}
    shown = record.metrics if outcome.completed else known
    names = [name for name in list_shown(Rank.RUN) if name in shown]
    values = {name: format_figure(record, name) for name in names}
    width = max([12, *map(len, values.values())])
    for name in names:
        remark = describe_figure(record, name)
        lines.append(f"  {METRICS[name].row:<13} {values[name]:>{width}}   {remark}".rstrip())
        if name == TENSOR_PEAK and record.allocations:
            beside = peak.describe_uncounted(record.allocations)
            lines += [f"  {'':<13} {'':>{width}}   {beside}"] if beside else []
    lines += [f"  TensorFlow warns: {words}" for words in find_warnings(folder / LOG_FILE)]
    lines += ["", f"  record   {shorten(folder / RECORD_FILE)}"]
    if not outcome.completed:
        lines.append(f"  log      {shorten(folder / LOG_FILE)}")
    return "\n".join(lines)


def find_warnings(log: Path) -> list[str]:
    """Return TensorFlow's own words, from the trials' log, that explain a figure: a function is
    traced again and again. Each function's once, its first sentence."""
    try:
        text = log.read_text(errors="replace") if log.is_file() else ""
    except OSError:
        return []
    by_function = {match["function"]: match[0] for match in _RETRACING.finditer(text)}
    return list(by_function.values())


def warn_of_load(record: Record) -> str:
    """Return that the machine was busy, if it was: memory is exact however busy it is, times are
    not."""
    load, cores = record.environment.load, record.environment.cores
    return f"the machine was busy, load {load:.1f} on {cores} cores" if load > cores else ""


def _describe_program(record: Record) -> list[str]:
    """Return what was taken for a step of a program that takes its own, and how many there were."""
    programs = [trial.facts.program for trial in record.trials if trial.facts.program]
    if not programs:
        return []
    first = programs[0]
    counts = sorted({program.steps for program in programs})
    taken = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    counted = f"a step is {first.step_is}; {taken} in each trial, the first call among them"
    lines = [f"  {counted if first.step_is else first.why_unknown}"]
    lines += [
        f"  {name} was set after TensorFlow was loaded, and may have no effect: set it outside"
        for name in first.set_late
    ]
    lines += [f"  left out: {', '.join(first.left_out)}"] if first.left_out else []
    if first.not_reached:
        statements = join_first(first.not_reached, 2, "more")
        to_end = "with scenario.max_steps=null it runs to its end"
        lines.append(f"  stopped after these steps, before {statements}; {to_end}")
    return lines


def describe_figure(record: Record, name: str) -> str:
    """Return what is to be known beside a figure, or why it is unknown."""
    value = record.metrics[name]
    if value is None:
        own = peak.describe_allocator_peak(record) if name == TENSOR_PEAK else ""
        return record.unavailable.get(name, "") + own
    match name:
        case metrics.TENSOR_PEAK:
            return peak.describe_peak(record)
        case metrics.TENSOR_GROWTH:
            traced = [trial for trial in record.trials if trial.kind == "memory"]
            growths = [judged for judged in map(growth.judge_tensors, traced) if judged is not None]
            if not value and (filling := find_filling(traced)) and filling.buffers:
                return f"none: {describe_filling(filling)}"
            if not value and any(judged.bytes_per_step for judged in growths):
                steps = max(len(trial.steps) for trial in traced)
                most = max(trial.steps.host_steps for trial in record.trials)
                return f"none: what rises in {steps} steps does not over {most:,}"
            parts = "" if value else "none", growth.describe_sawtooth(growths)
            return ": ".join(filter(None, parts))
        case metrics.HOST_GROWTH:
            timed = [trial for trial in record.trials if trial.kind == "timing"]
            teeth = growth.describe_sawtooth(map(growth.judge_host, timed))
            return "; ".join(filter(None, (teeth, describe_bound(record, name))))
        case metrics.HOST_PEAK:
            # It is of the trial's own process, without those that it started.
            children = max((trial.facts.child_processes or 0 for trial in record.trials), default=0)
            many = "its child process" if children == 1 else f"its {children} child processes"
            apart = f", without the memory of {many}" if children else ""
            return f"above the trial's start{apart}"
        case metrics.STEP_SECONDS:
            return "; ".join(filter(None, (describe_time(record, name), warn_of_load(record))))
        case metrics.FIRST_CALL_SECONDS:
            steady = record.metrics.get(STEP_SECONDS)
            return f"{value / steady:,.1f} times a steady step" if value and steady else ""
    return "above what was live when it began" if METRICS[name].op_order == "matters" else ""
