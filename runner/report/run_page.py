"""A run's page: what came out, what its peak is made of, when, from where, and how it was told."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree.ElementTree import Element

from runner.allocations import Allocations
from runner.export.command import reproduce
from runner.judging import estimate, selection
from runner.judging.selection import Grid
from runner.metrics import METRICS, readable, readable_bytes, readable_seconds
from runner.records import Record, Trial
from runner.report import asked, peak, picture
from runner.report.charts import Dot, Dots, Line, Linear, dots, from_zero, plot
from runner.report.lines import lines_table
from runner.report.markup import Node, page, tag
from runner.report.tables import (
    Cell,
    Head,
    between,
    exactly,
    metric_cell,
    metric_head,
    table,
    times,
)

_HEADLINES = (
    "tensor_peak_bytes",
    "tensor_step_peak_bytes",
    "tensor_growth_bytes_per_step",
    "host_peak_bytes",
    "step_seconds",
    "first_call_seconds",
)
_MOST_POINTS = 400
"""Of a series over the steps, in a picture."""


def run_page(record: Record, folder: Path) -> str:
    title = selection.title(record)
    return page(
        title,
        tag("header", tag("h1", title), _asked(record), *_outcome(record)),
        _figures(record),
        *_peak(record),
        _section("Time", *_time(record)),
        _section("Processes", _trials(record.trials), *_steps(record)),
        _section("Every figure", *_metrics(record)),
        _section("What was asked", *_specification(record)),
        _section("Measured on", asked.environment([record])),
        tag("footer", f"Record {record.id}, cell {record.cell}, in {folder.resolve()}"),
    )


def _section(title: str, *content: Node) -> Element:
    return tag("section", tag("h2", title), *content)


def _asked(record: Record) -> Element:
    spec = record.spec
    parameters = [
        selection.said(name, selection.word(value))
        for name, value in selection.fields(spec).items()
        if name.startswith("scenario.")
    ]
    device = record.environment.get("device") or spec["device"]["kind"]
    what = [*parameters, f"on {device}", asked.evidence(record.trials)]
    return tag("p", " · ".join([*what, asked.when(record.started_at)]), class_="asked")


def _outcome(record: Record) -> Iterator[Node]:
    """The one thing to know: how high it went and of what, or why it did not get there."""
    if not record.outcome.completed:
        yield from failure(record)
        return
    value = record.metrics.get("tensor_peak_bytes")
    if value is None:
        return
    words = f"Peak {readable_bytes(value)} of tensors"
    if record.allocations:
        words += f", {peak.moment(record.allocations)}"
        if split := peak.split_words(record.allocations.split, least=value / 1000):
            words += f": {split}"
    yield tag("p", words, class_="sentence")


def failure(record: Record) -> Iterator[Node]:
    """How it ended, and the reason as it was given."""
    outcome = record.outcome
    words = outcome.words
    said = words[0].upper() + words[1:]
    yield tag("p", tag("span", "✗ ", aria_hidden="true"), said, class_="sentence failed")
    if outcome.reason:
        yield asked.code(outcome.reason)


def _figures(record: Record) -> Element:
    """Those that one looks for, large."""
    shown = [name for name in _HEADLINES if record.metrics.get(name) is not None]
    return tag("div", (_tile(record, name) for name in shown), class_="tiles")


def _tile(record: Record, name: str) -> Element:
    value, interval = record.metrics[name], record.intervals.get(name)
    assert value is not None
    remark = exactly(name, value) if value or "growth" not in name else "none"
    if interval and interval[0] != interval[1]:
        measured = f"{between(name, interval)} (95\N{NO-BREAK SPACE}%)"
        remark = measured if METRICS[name].is_time else remark
    label = METRICS[name].label
    return tag(
        "div",
        tag("span", label if "peak" not in label or " " in label else "tensor peak"),
        tag("b", readable(name, value)),
        tag("small", remark),
        title=f"{name}: {METRICS[name].meaning}",
    )


def _peak(record: Record) -> Iterator[Node]:
    allocations = record.allocations
    if not allocations or not allocations.groups:
        why = record.unavailable.get("tensor_peak_bytes", "its allocations were not recorded")
        yield _section("What the peak is made of", tag("p", f"Unknown: {why}"))
        return
    yield _section("What the peak is made of", *peak.made_of(allocations), *_tables(allocations))
    if beside := peak.uncounted(allocations):
        yield tag("p", f"Of this peak: {beside}.", class_="note")
    if told := picture.Told.of("this run", allocations):
        name = "phase" if allocations.step is None else "step"
        yield _section(f"Every tensor of the peak's {name}", picture.picture(told))
    if scopes := list(peak.scopes(allocations)):
        yield _section("Which layer or scope it belongs to", *scopes)
    if curves := list(peak.over_time(allocations)):
        yield _section("Live bytes over time", *curves)
    if leaks := list(peak.leaks(allocations)):
        yield _section("What leaks", *leaks)
    if trust := peak.trust(allocations):
        yield tag("p", trust, class_="note")


def _tables(allocations: Allocations) -> Iterator[Node]:
    if allocations.lines:
        yield tag("h3", "By line of code")
        yield lines_table(allocations)
        yield tag("h3", "By op, shape and dtype")
    yield peak.groups_table(allocations)


# Time, and step by step.


def _time(record: Record) -> Iterator[Node]:
    rows = []
    for name in ("build_seconds", "first_call_seconds", "step_seconds"):
        value = record.metrics.get(name)
        if value is None:
            continue
        interval = record.intervals.get(name)
        each = estimate.samples(record.trials, name, record.spec)
        own = [Dot("one", seconds, f"one process: {readable(name, seconds)}") for seconds in each]
        whole = Dot("steady", value, f"{METRICS[name].label}: {exactly(name, value)}", interval)
        remark = f"95 %: {between(name, interval)}" if interval else ""
        rows.append(Dots(METRICS[name].label, [*own, whole], readable(name, value), remark))
    if not rows:
        yield tag("p", record.unavailable.get("step_seconds", "No time was measured."))
        return
    yield dots(rows, readable_seconds)
    first, steady = (record.metrics.get(name) for name in ("first_call_seconds", "step_seconds"))
    if first and steady:
        yield tag("p", f"The first call took {times(first / steady)} as long as a steady step.")


def _steps(record: Record) -> Iterator[Node]:
    """How each process went from step to step: warm-up, noise and growth are seen here."""
    for figure, title, name in (
        ("seconds", "Time of each step", "step_seconds"),
        ("tensor_live_bytes", "Live tensor bytes after each step", "tensor_live_bytes"),
        ("host_bytes", "Resident host memory after each step", "host_peak_bytes"),
    ):
        trials = [trial for trial in record.trials if len(trial.steps.get(figure, ())) > 1]
        if not trials:
            continue
        lines = [
            _series(trial, trial.steps[figure], number, name) for number, trial in enumerate(trials)
        ]
        values = [value for line in lines for _, value in line.points]
        longest = max(len(trial.steps[figure]) for trial in trials)
        y = from_zero(values, lambda value, name=name: readable(name, value))  # type: ignore[misc]
        drawn = plot(
            lines,
            Linear(0, longest - 1, lambda value: f"{value:.0f}"),
            y,
            summary=f"{title}, {len(lines)} processes",
            x_name="step, from 0; the first ones are warm-up",
        )
        yield tag("details", tag("summary", title), drawn)


def _series(trial: Trial, values: Sequence[float], number: int, name: str) -> Line:
    points = thinned(values)
    who = f"{trial.kind} process {trial.index}"
    texts = [f"{readable(name, value)} in step {step:.0f}, {who}" for step, value in points]
    return Line(points, texts, number)


def thinned(values: Sequence[float], most: int = _MOST_POINTS) -> list[tuple[float, float]]:
    """(Step, value), the lowest and the highest of each stretch where there are too many."""
    if len(values) <= most:
        return [(float(step), value) for step, value in enumerate(values)]
    length = -(-2 * len(values) // most)
    kept: set[int] = {0, len(values) - 1}
    for begin in range(0, len(values), length):
        stretch = range(begin, min(begin + length, len(values)))
        kept.update((min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)))
    return [(float(step), values[step]) for step in sorted(kept)]


# Tables.

_PHASE_FIGURES = (("build", "build_seconds"), ("first_call", "first_call_seconds"))


def _trials(trials: Sequence[Trial]) -> Element:
    head = [
        *(Head("process"), Head("outcome"), Head("steps", figure=True)),
        *(metric_head(name) for _, name in _PHASE_FIGURES),
        *(metric_head("step_seconds"), metric_head("tensor_peak_bytes")),
        metric_head("host_peak_bytes"),
    ]
    return table(head, [_trial(trial) for trial in trials], label="processes")


def _trial(trial: Trial) -> list[Cell]:
    steady = estimate.steady_seconds(trial)
    host = [
        figures.get("host_peak_bytes")
        for phase, figures in trial.phases.items()
        if phase != "release"
    ]
    known = [value for value in host if value is not None]
    figures = [(name, trial.phases.get(phase, {}).get("seconds")) for phase, name in _PHASE_FIGURES]
    figures += [
        ("step_seconds", statistics.median(steady) if steady else None),
        ("tensor_peak_bytes", trial.facts.get("tensor_peak_bytes")),
        ("host_peak_bytes", max(known, default=None)),
    ]
    steps = max((len(series) for series in trial.steps.values()), default=0)
    return [
        Cell(f"{trial.kind} {trial.index}"),
        Cell(trial.outcome.words, remark=trial.outcome.reason or ""),
        Cell(f"{steps:,}", value=steps, figure=True),
        *(_value(name, value) for name, value in figures),
    ]


def _value(name: str, value: float | None) -> Cell:
    if value is None:
        return Cell("", figure=True)
    return Cell(readable(name, value), exactly(name, value), value, figure=True)


def _metrics(record: Record) -> Iterator[Node]:
    """Those that are known as a table, the others by the reason why they are not."""
    rows = []
    for name in METRICS:
        if record.metrics.get(name) is not None:
            interval = record.intervals.get(name)
            rows.append(
                [
                    Cell(name),
                    metric_cell(record, name),
                    Cell(between(name, interval) if interval else ""),
                    Cell(METRICS[name].meaning),
                ]
            )
    head = [Head("metric"), Head("value", figure=True), Head("95 % interval"), Head("meaning")]
    if rows:
        yield table(head, rows, label="every metric")
    reasons: dict[str, list[Node]] = {}
    for name, why in record.unavailable.items():
        names = reasons.setdefault(why, [])
        names += [", " if names else None, tag("code", name)]
    if reasons:
        yield tag("p", "Not measured:")
        yield tag("ul", (tag("li", names, f": {why}") for why, names in reasons.items()))


def _specification(record: Record) -> Iterator[Node]:
    with suppress(OSError):  # the measure of that name may not be in conf/ any more
        yield asked.code(reproduce(record))
    yield asked.specification(Grid([record]))
