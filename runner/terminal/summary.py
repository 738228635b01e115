"""What came of a plan, on stdout: a run in five seconds of reading, a sweep as one table.

Piped, it holds no control codes. A sweep's table has its best cells first: the smallest tensor
peak, and of equal ones the fastest; what did not complete comes last, with its reason.
"""

from __future__ import annotations

import io
import math
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from runner import records
from runner.export import frames
from runner.judging import estimate, growth, selection
from runner.judging.objective import Objective
from runner.metrics import METRICS, readable
from runner.places import relative
from runner.plan import Plan
from runner.records import LOG_FILE, RECORD_FILE, Outcome, Record
from runner.report.peak import uncounted
from runner.running.engine import Result
from runner.terminal.console import readable_duration, styled
from runner.terminal.tables import widths
from runner.tracking import LOCAL_UI, Links

MOST_ROWS = 40
"""Of cells that completed; beyond that the table is a file to open."""

MOST_REASONS = 5
"""Too long for the table, that are printed whole below it."""

_COLUMNS = (
    "tensor_peak_bytes",
    "tensor_growth_bytes_per_step",
    "host_peak_bytes",
    "step_seconds",
    "first_call_seconds",
)
_BEST = ("tensor_peak_bytes", "step_seconds")


def of_whole(plan: Plan, result: Result, seconds: float, report: Path | None) -> str:
    if plan.is_sweep:
        return of_sweep(plan, result, seconds, report)
    return of_run(result.folder, seconds)


def of_pages(pages: str | Links) -> str:
    """Where a run, or a sweep, is in the store: told last, as it may take a moment longer to be
    there than all else."""
    runs = pages if isinstance(pages, str) else pages.runs
    lines = [f"  MLflow   {runs}"]
    if isinstance(pages, Links):
        lines.append(f"  charts   {pages.comparison}")
    if runs.startswith(LOCAL_UI):  # of the embedded store, which is there while somebody serves it
        lines.append("           which `python -m runner ui` serves")
    return "\n".join(lines)


# A run.


def of_run(folder: Path, seconds: float | None, plain: bool = False) -> str:
    """What ran, peak, growth, step time, first call against steady, and where it is; `plain`, it
    is not for a terminal."""
    out = io.StringIO() if plain else sys.stdout
    record = records.read(folder)
    spec = record.spec
    title = selection.title(record)
    device = record.environment.get("device")
    lines = ["", styled(f"{title} · {device}" if device else title, "1", out)]
    parameters = [f"{key}={selection.word(value)}" for key, value in spec["parameters"].items()]
    lines.append(f"  {', '.join(parameters)}")
    took = "" if seconds is None else f", {readable_duration(seconds)}"
    lines.append(f"  {_evidence(record)}{took}")
    lines.append("")
    if record.outcome.completed:
        lines += _figures(record)
    else:
        lines.append(f"  {styled(_ended(record.outcome), '31', out)}")
    lines += [f"  TensorFlow warns: {said}" for said in warnings_in(folder / LOG_FILE)]
    lines += ["", f"  record   {relative(folder / RECORD_FILE)}"]
    if not record.outcome.completed:
        lines.append(f"  log      {relative(folder / LOG_FILE)}")
    return "\n".join(lines)


def warnings_in(log: Path) -> list[str]:
    """TensorFlow's own words, from the trials' log, that explain a figure: a function is traced
    again and again. Each function's once, its first sentence."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return []
    found = {each["function"]: each[0] for each in _RETRACING.finditer(text)}
    return list(found.values())


_RETRACING = re.compile(
    r"\d+ out of the last \d+ calls to <function (?P<function>\S+).*? triggered tf\.function "
    r"retracing\."
)


def _ended(outcome: Outcome) -> str:
    return f"{outcome.words}: {outcome.reason}"


def _evidence(record: Record) -> str:
    counts = {kind: sum(1 for trial in record.trials if trial.kind == kind)
              for kind in ("memory", "timing", "host")}  # fmt: skip
    parts = [f"{count} {kind}" for kind, count in counts.items() if count]
    trials = "trial" if sum(counts.values()) == 1 else "trials"
    return f"{' + '.join(parts) or 'no'} {trials} (measure={record.spec['measure']['name']})"


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
    if record.allocations and (beside := uncounted(record.allocations)):
        lines.append(f"  {'':<13} {'':>12}   {beside}")
    row("  of a step", "tensor_step_peak_bytes", "above what was live when it began")
    row("  growth", "tensor_growth_bytes_per_step", _grown(record))
    row("host peak", "host_peak_bytes", _above_start(record))
    row("  growth", "host_growth_bytes_per_step", _grown_on_host(record))
    row("step", "step_seconds", "; ".join(_noise(record)))
    row("first call", "first_call_seconds", _first_against_steady(record))
    row("examples", "examples_per_second")
    return lines


def _exact(record: Record) -> str:
    value = record.metrics.get("tensor_peak_bytes")
    exact = f"{value:,} bytes" if value is not None else ""
    peaks = estimate.samples(record.trials, "tensor_peak_bytes", record.spec)
    if len(set(peaks)) > 1:
        usual = min(peaks, key=lambda peak: (-peaks.count(peak), peak))
        times = peaks.count(max(peaks))
        low, high = (readable("tensor_peak_bytes", each) for each in (usual, max(peaks)))
        if low == high:
            low, high = f"{usual:,} bytes", f"{max(peaks):,}"
        below = f"{low} in {peaks.count(usual)}, up to {high} " if usual < max(peaks) else ""
        exact += f"; {below}in {times} of {len(peaks)} processes"
        if min(peaks) < usual:
            exact += f", down to {readable('tensor_peak_bytes', min(peaks))}"
    return exact


def _grown(record: Record) -> str:
    found = map(growth.of_tensors, (each for each in record.trials if each.kind == "memory"))
    teeth = growth.highest_tooth(found)
    none = "" if record.metrics.get("tensor_growth_bytes_per_step") else "none"
    return ": ".join(filter(None, (none, teeth)))


def _above_start(record: Record) -> str:
    """And what these figures leave out: they are of the trial's own process."""
    children = max((trial.facts.get("child_processes", 0) for trial in record.trials), default=0)
    if not children:
        return "above the trial's start"
    whose = "its child process" if children == 1 else f"its {children} child processes"
    return f"above the trial's start, without the memory of {whose}"


def _grown_on_host(record: Record) -> str:
    found = map(growth.of_host, (each for each in record.trials if each.kind == "timing"))
    return growth.highest_tooth(found)


def _interval(record: Record, name: str) -> str:
    bounds = record.intervals.get(name)
    if not bounds:
        return ""
    return f"95 %: {readable(name, bounds[0])} to {readable(name, bounds[1])}"


def _noise(record: Record) -> list[str]:
    """How far a time can be trusted."""
    return [text for text in (_interval(record, "step_seconds"), _busy(record)) if text]


def _busy(record: Record) -> str:
    """Memory is exact however busy the machine is; times are not."""
    load, cores = (record.environment.get(name) or 0 for name in ("load", "cores"))
    return f"the machine was busy, load {load:.1f} on {cores} cores" if load > cores else ""


def _first_against_steady(record: Record) -> str:
    first, steady = record.metrics.get("first_call_seconds"), record.metrics.get("step_seconds")
    return f"{first / steady:,.1f} times a steady step" if first and steady else ""


# A sweep.


def of_sweep(plan: Plan, result: Result, seconds: float, report: Path | None) -> str:
    """The table, then where everything is and what to type next."""
    objective = Objective.of(plan.cells[0].search) if plan.search else None
    cells = [_Cell(folder, plan, objective) for folder in records.find(result.folder)]
    front = _mark_front(cells, objective)
    failed = [cell for cell in cells if not cell.outcome.completed]
    best = sorted((cell for cell in cells if cell.outcome.completed), key=lambda cell: cell.order)
    lines = ["", *_table(plan, best, failed, objective), ""]
    busy = next((cell.busy for cell in cells if cell.busy), "")
    lines += [f"times are unsure: {busy} when it began"] if busy else []
    took = readable_duration(seconds)
    lines.append(f"{len(best)} of {len(cells)} cells completed in {took}{_apart(plan)}")
    lines += [front] if front else []
    folder = relative(result.folder)
    lines.append(f"  table    {folder}/{frames.CSV_FILE}, {frames.PARQUET_FILE}")
    if report:
        lines.append(f"  report   {relative(report)}")
    if failed:
        cell = failed[0].name if len(failed) == 1 else "N"
        lines.append(f"  log      {folder}/{cell}/{LOG_FILE}")
    if result.interrupted:
        lines.append(f"  go on    the same words and resume={shlex.quote(folder)}")
    elif len(best) > 1 and plan.swept:
        lines.append(f"  compare  python -m runner compare {shlex.quote(folder)}")
    return "\n".join(lines)


def _mark_front(cells: Sequence[_Cell], objective: Objective | None) -> str:
    """Put the cells that a search was for first, and say which they are."""
    if objective is None:
        return ""
    front = objective.front([cell.record for cell in cells if cell.record])
    for cell in cells:
        cell.is_front = any(cell.record is each for each in front)
        cell.order = [not cell.is_front, *cell.order]
    if not front:
        return f"no cell has the {objective.words}: {_why_none(cells, objective)}"
    if len(objective.metrics) == 1:
        return f"* {objective.words}"
    many = "1 cell" if len(front) == 1 else f"{len(front)} cells"
    return f"* the front, {many} that no other cell beats: {objective.words}"


def _why_none(cells: Sequence[_Cell], objective: Objective) -> str:
    found = (objective.why_not(cell.record) for cell in cells if cell.record)
    return next(filter(None, found), "none was run")


def _apart(plan: Plan) -> str:
    if plan.launcher is None:
        return ""
    return f" under {plan.launcher}: not in rounds, so times are less sure to be comparable"


class _Cell:
    """What the table says of one record; the rest of it is let go, but for what a search asks."""

    def __init__(self, folder: Path, plan: Plan, objective: Objective | None = None) -> None:
        record = records.read_brief(folder)
        self.record = record if objective else None
        self.name = folder.name
        words = selection.words(record)
        said = (record.sweep or {}).get("swept", {})
        names = (*plan.swept, "scenario", "execution")
        self._words = {name: words.get(name, said.get(name)) or "" for name in names}
        self.outcome = record.outcome
        self.busy = _busy(record)
        self.figures = [_figure(record, name) for name in _columns(objective)]
        self.is_front = False
        """Whether it is what a search was for."""
        self.is_measured = record.metrics.get("tensor_peak_bytes") is not None
        """It may be, although the cell did not complete: one interrupted between two trials."""
        values = (record.metrics.get(name) for name in _BEST)
        self.order: list[float] = [math.inf if value is None else value for value in values]

    def said(self, fields: Sequence[str]) -> list[str]:
        return [self._words[name] if name else "*" * self.is_front for name in fields]


def _columns(objective: Objective | None) -> tuple[str, ...]:
    """What was searched for comes first."""
    names = objective.names if objective else ()
    return (*names, *(name for name in _COLUMNS if name not in names))


def _fields(plan: Plan, cells: Sequence[_Cell]) -> list[str]:
    """What was swept; and the execution, where scenarios that were swept bring their own."""
    fields = list(plan.swept or ("scenario",))
    differs = len({tuple(cell.said(["execution"])) for cell in cells}) > 1
    return [*fields, "execution"] if differs and "execution" not in fields else fields


def _figure(record: Record, name: str) -> str:
    value = record.metrics.get(name)
    if value == 0 and name == "tensor_growth_bytes_per_step":
        return "none"
    return readable(name, value)


def _table(
    plan: Plan, best: Sequence[_Cell], failed: Sequence[_Cell], objective: Objective | None
) -> list[str]:
    out = sys.stdout
    fields = _fields(plan, [*best, *failed])
    if objective:
        fields = ["", *fields]  # for the mark
    heads = [selection.short(name) for name in fields]
    figures = [_HEADS.get(name, METRICS[name].label) for name in _columns(objective)]
    shown = best[:MOST_ROWS]
    wide = widths([heads, *(cell.said(fields) for cell in (*shown, *failed))])
    measured = widths([figures, *(cell.figures for cell in (*shown, *failed) if cell.is_measured)])

    def row(words: Sequence[str], figures: Sequence[str] = ()) -> str:
        left = [f"{text:<{width}}" for text, width in zip(words, wide, strict=True)]
        right = [f"{text:>{width}}" for text, width in zip(figures, measured, strict=False)]
        return "  ".join([*left, *right])

    lines = [styled(row(heads, figures), "1", out)]
    lines += [row(cell.said(fields), cell.figures) for cell in shown]
    if len(best) > len(shown):
        lines.append(f"... and {len(best) - len(shown)} more that completed: see the table's file")
    for cell in failed:
        ended = styled(_cut(cell.outcome.brief), "31", out)
        lines.append(f"{row(cell.said(fields), cell.figures if cell.is_measured else ())}  {ended}")
    return [*lines, *_whole(failed)]


def _whole(failed: Sequence[_Cell]) -> list[str]:
    """The reasons that the table had no room for, each once."""
    long = dict.fromkeys(cell.outcome.brief for cell in failed)
    lines = [line for line in long if line != _cut(line)]
    more = (
        [f"... and {len(lines) - MOST_REASONS} more: see the log"]
        if len(lines) > MOST_REASONS
        else []
    )
    return ["", *lines[:MOST_REASONS], *more] if lines else []


_HEADS = {"tensor_peak_bytes": "tensor peak"}


def _cut(line: str) -> str:
    return line if len(line) <= 120 else f"{line[:117]}..."
