"""A run's page: the outcome, the parts of its peak, its times, its processes, its machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import Element

from runner.analysis import estimate, selection
from runner.analysis.selection import CellGrid
from runner.facts import StepSeries
from runner.metrics import (
    BUILD_SECONDS,
    FIRST_CALL_SECONDS,
    HOST_PEAK,
    METRICS,
    STEP_SECONDS,
    TENSOR_LIVE,
    TENSOR_PEAK,
    Rank,
    format_metric,
    format_seconds,
    list_shown,
)
from runner.records import COMPLETED, Record, Trial
from runner.render import peak
from runner.render.files.command import write_command
from runner.render.html import peak_sections, provenance
from runner.render.html.charts import ChartMark, ChartRow, PlotLine, draw_dots, draw_plot
from runner.render.html.elements import Node, draw_sections, tag, write_document
from runner.render.html.lives import draw_lives
from runner.render.html.scales import LinearScale, make_scale_from_zero
from runner.render.html.tables import draw_table
from runner.render.tables import (
    Column,
    TableCell,
    make_count_cell,
    make_metric_cell,
    make_table,
    make_value_cell,
    make_value_column,
)
from runner.render.words import (
    count_things,
    count_trials,
    describe_bound,
    describe_interval,
    describe_time,
    find_range,
    format_exactly,
    format_figure,
    format_times,
)

_MOST_POINTS = 400
"""A series over the steps is drawn with about so many points."""


def draw_run_page(record: Record, folder: Path) -> str:
    """Return a run's page. One more section is a line here and the function that draws it."""
    title, allocations = selection.name_record(record), record.allocations
    sections: list[tuple[str, Iterable[Node]]] = [("What the peak is made of", _draw_peak(record))]
    if allocations and allocations.groups:
        sections += [
            (
                f"Every tensor of the peak's {peak.name_stretch(allocations)}",
                draw_lives(allocations),
            ),
            ("Which layer or scope it belongs to", peak_sections.draw_layers(allocations)),
            ("Live bytes over time", peak_sections.draw_curves(allocations)),
            ("What leaks", peak_sections.draw_leaks(allocations)),
        ]
    sections += [
        ("Time", _draw_times(record)),
        ("Processes", _draw_trials(record)),
        ("Every figure", _draw_metrics(record)),
        ("What was asked", _draw_specification(record)),
        ("Measured on", [provenance.list_environment([record])]),
    ]
    return write_document(
        title,
        tag("header", tag("h1", title), draw_head(record)),
        draw_sections(sections),
        tag("footer", f"Record {record.id}, cell {record.cell}, in {folder.resolve()}"),
    )


def draw_head(record: Record) -> Iterator[Node]:
    """Draw the specification in a line, the outcome, and the figures that one looks for."""
    spec, allocations = record.spec, record.allocations
    parameters = [
        selection.name_value(name, selection.format_word(value))
        for name, value in spec.fields.items()
        if name.startswith("scenario.")
    ]
    device = record.environment.device or spec.device.kind
    trials = count_trials(record.trials, "process", "processes")
    when = provenance.format_time(record.started_at)
    yield tag("p.asked", " · ".join([*parameters, f"on {device}", trials, when]))
    value = record.metrics.get(TENSOR_PEAK)
    if not record.outcome.completed:
        words = record.outcome.words
        mark = tag("span", "✗ ", aria_hidden="true")
        yield tag("p.sentence.failed", mark, words[0].upper() + words[1:])
        if record.outcome.reason:
            yield provenance.draw_code(record.outcome.reason)
        if record.trials:
            yield tag("p.failed", peak.warn_of_end(record))
    elif value is not None:
        words = f"Peak {format_figure(record, TENSOR_PEAK)} of tensors"
        low, high = find_range(record, TENSOR_PEAK) or (value, value)
        words += " by process, the highest" if low < high else ""
        if allocations:
            words += f", {peak.name_moment(allocations)}"
            if split := peak.describe_split(allocations.split, least=value / 1000):
                words += f": {split}"
        yield tag("p.sentence", words)
    known = [name for name in list_shown(Rank.RUN) if record.metrics.get(name) is not None]
    yield tag("div.tiles", (_draw_tile(record, name) for name in known))


def _draw_tile(record: Record, name: str) -> Element:
    metric, value = METRICS[name], record.metrics[name] or 0
    remark = format_exactly(name, value)
    if metric.is_growth and not value:
        remark = describe_bound(record, name) or "none"
    if name == TENSOR_PEAK:
        remark = peak.describe_peak(record)
    if metric.is_time:
        remark = describe_time(record, name) or remark
    lines = tag("span", metric.heading), tag("b", format_figure(record, name)), tag("small", remark)
    return tag("div", lines, title=f"{name}: {metric.meaning}")


def _draw_peak(record: Record) -> Iterator[Node]:
    allocations = record.allocations
    if not allocations or not allocations.groups:
        why = peak.explain_absence(record)
        yield tag("p", f"{why[0].upper()}{why[1:]}.")
        return
    if not record.outcome.completed:
        yield tag("p", "Until it ended early: a whole run may have gone higher.")
    yield from peak_sections.draw_whole(allocations)
    if allocations.lines:
        yield tag("h3", "By line of code")
        yield peak_sections.draw_lines(allocations)
        yield tag("h3", "By op, shape and dtype")
    yield peak_sections.draw_ops(allocations)
    if beside := peak.describe_uncounted(allocations):
        yield tag("p.note", f"Of this peak {beside}.")
    if checks := peak.describe_checks(allocations):
        yield tag("p.note", checks)


def _draw_times(record: Record) -> Iterator[Node]:
    rows = []
    for name in (BUILD_SECONDS, FIRST_CALL_SECONDS, STEP_SECONDS):
        value = record.metrics.get(name)
        if value is None:
            continue
        label, interval = METRICS[name].label, record.intervals.get(name)
        own = [
            ChartMark("one", seconds, f"one process: {format_metric(name, seconds)}")
            for seconds in estimate.list_samples(record.trials, name, record.spec)
        ]
        whole = ChartMark("steady", value, f"{label}: {format_exactly(name, value)}", interval)
        remark = describe_time(record, name)
        rows.append(ChartRow(label, [*own, whole], format_metric(name, value), remark))
    if not rows:
        yield tag("p", record.unavailable.get(STEP_SECONDS, "No time was measured."))
        return
    yield draw_dots(rows, format_seconds)
    first, steady = (record.metrics.get(name) for name in (FIRST_CALL_SECONDS, STEP_SECONDS))
    if first and steady:
        words = format_times(first / steady)
        yield tag("p", f"The first call took {words} as long as a steady step.")


_ReadSeries = Callable[[StepSeries], Sequence[float]]


def _draw_trials(record: Record) -> Iterator[Node]:
    """Draw the processes, and how each went from step to step: warm-up, noise, growth."""

    def read_figure(trial: Trial, name: str) -> TableCell:
        """Return what one process says of a metric, however the process ended."""
        values = estimate.list_samples([replace(trial, outcome=COMPLETED)], name, record.spec)
        return make_value_cell(name, values[0] if values else None)

    figures = (BUILD_SECONDS, FIRST_CALL_SECONDS, STEP_SECONDS, TENSOR_PEAK, HOST_PEAK)
    columns: list[Column[Trial]] = [
        Column("process", lambda trial: f"{trial.kind} {trial.index}"),
        Column("outcome", lambda trial: TableCell(trial.outcome.words,
                                                  remark=trial.outcome.reason or "")),
        Column("steps", lambda trial: make_count_cell(len(trial.steps)), is_figure=True),
        *(make_value_column(name, partial(read_figure, name=name)) for name in figures),
    ]  # fmt: skip
    yield draw_table(make_table(columns, record.trials), "processes")
    series: tuple[tuple[_ReadSeries, str, str], ...] = (
        (lambda steps: steps.seconds, "Time of each step", STEP_SECONDS),
        (lambda steps: steps.tensor_live_bytes, "Live tensor bytes after each step", TENSOR_LIVE),
        (lambda steps: steps.host_bytes, "Resident host memory after each step", HOST_PEAK),
    )
    for read, title, name in series:
        trials = [trial for trial in record.trials if len(read(trial.steps)) > 1]
        if trials:
            yield tag("details", tag("summary", title), _draw_steps(trials, read, title, name))


def _draw_steps(trials: Sequence[Trial], read: _ReadSeries, title: str, name: str) -> Element:
    lines, longest = [], 0
    for number, trial in enumerate(trials):
        series = read(trial.steps)
        stride = trial.steps.get_stride(series)
        longest = max(longest, stride * len(series))
        points = [(stride * place, value) for place, value in thin_out(series)]
        who = f"{trial.kind} process {trial.index}"
        texts = [
            f"{format_metric(name, value)} in step {step:.0f}, {who}" for step, value in points
        ]
        lines.append(PlotLine(points, texts, number))
    return draw_plot(
        lines,
        LinearScale(0, longest - 1, "{:.0f}".format),
        make_scale_from_zero([y for line in lines for _, y in line.points], METRICS[name].format),
        summary=f"{title}, {count_things(len(lines), 'process', 'processes')}",
        x_name="step, from 0; the first ones are warm-up",
    )


def thin_out(values: Sequence[float], most: int = _MOST_POINTS) -> list[tuple[float, float]]:
    """Return (place, value), the lowest and the highest of each stretch where there are too
    many."""
    # A stretch keeps two of its points, so it is twice as long as a share of the series.
    length = -(-2 * len(values) // most) if len(values) > most else 1
    kept: set[int] = {0, len(values) - 1}
    for begin in range(0, len(values), length):
        stretch = range(begin, min(begin + length, len(values)))
        kept.update((min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)))
    return [(float(step), values[step]) for step in sorted(kept)]


def _draw_metrics(record: Record) -> Iterator[Node]:
    """Draw the figures that are known as a table, the others by the reason why they are not."""
    known = [name for name in METRICS if record.metrics.get(name) is not None]
    columns: list[Column[str]] = [
        Column("metric", lambda name: name),
        Column("value", lambda name: make_metric_cell(record, name), is_figure=True),
        Column("95 % interval", lambda name: describe_interval(record, name)),
        Column("meaning", lambda name: METRICS[name].meaning),
    ]
    if known:
        yield draw_table(make_table(columns, known), "every metric")
    reasons: dict[str, list[Node]] = {}
    for name, why in record.unavailable.items():
        names = reasons.setdefault(why, [])
        names += [", " if names else None, tag("code", name)]
    if reasons:
        yield tag("p", "Not measured:")
        yield tag("ul", (tag("li", names, f": {why}") for why, names in reasons.items()))


def _draw_specification(record: Record) -> Iterator[Node]:
    with suppress(OSError):  # the measure of that name may not be in conf/ any more
        yield provenance.draw_code(write_command(record))
    yield provenance.list_specification(CellGrid([record]))
