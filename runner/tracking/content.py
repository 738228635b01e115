"""A record as MLflow shows it: what goes into its run. A view; it measures and stores nothing.

Exact metrics keep the contract's names. Beside them stand rounded ones in readable units, whose
names carry the unit and a section (`memory/peak_MB`): MLflow draws a section of charts for each.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from runner.allocations import Allocations
from runner.export.command import reproduce
from runner.foreign import fenced, in_markdown, printable, span
from runner.judging import selection
from runner.metrics import METRICS, Metric, readable, readable_bytes
from runner.records import Record, Status, Trial

ARTIFACTS = (
    "record.json",
    "trials.jsonl",
    "*.yaml",
    "*.log",
    "*.html",
    "*.png",
    "*.svg",
    "*.csv",
    "*.md",
    "timeline.json",
    "allocations.folded",
)
"""The files of a run's folder that are kept with its run, where they are there."""

SWEEP_ARTIFACTS = "sweep"
"""Where the run of a sweep's first cell has the report and the pictures of the whole sweep."""

LARGEST_ARTIFACT_BYTES = 32_000_000
LONGEST_PARAMETER = 6000
LONGEST_TAG = 8000
SERIES_POINTS = 200

_READABLE_UNIT = {
    "bytes": (1e6, "_MB"),
    "bytes/step": (1e3, "_kB_per_step"),
    "seconds": (1e-3, "_ms"),
    "per second": (1.0, "_per_s"),
    "count": (1.0, ""),
    "count/step": (1.0, "_per_step"),
}
_SERIES = {
    "seconds": ("steps/step_ms", 1e-3),
    "tensor_live_bytes": ("steps/tensor_live_MB", 1e6),
    "host_bytes": ("steps/host_MB", 1e6),
}
"""What a trial reads at each step, and the metric that shows it."""

_HEADLINES = (
    "tensor_peak_bytes",
    "tensor_growth_bytes_per_step",
    "host_peak_bytes",
    "host_growth_bytes_per_step",
    "step_seconds",
    "first_call_seconds",
)


@dataclass(frozen=True)
class Point:
    """One value of a metric, as MLflow keeps it."""

    name: str
    value: float
    step: int = 0


@dataclass(frozen=True)
class Content:
    """One MLflow run, whole."""

    name: str
    status: str
    """MLflow's own word for the outcome; the record's is a tag."""
    started_ms: int
    ended_ms: int
    parameters: dict[str, str]
    points: tuple[Point, ...]
    tags: dict[str, str]

    @property
    def digest(self) -> str:
        """The same as long as nothing that MLflow can't overwrite has changed."""
        fixed = (self.started_ms, sorted(self.parameters.items()), [repr(p) for p in self.points])
        return hashlib.sha256(json.dumps(fixed).encode()).hexdigest()[:16]


def describe(record: Record, folder: Path) -> Content:
    """What MLflow is told about the record in `folder`."""
    started_ms = round(datetime.fromisoformat(record.started_at).timestamp() * 1000)
    return Content(
        name=run_name(record),
        status=_MLFLOW_STATUS.get(record.outcome.status, "FAILED"),
        started_ms=started_ms,
        ended_ms=started_ms + round(1000 * _measured_seconds(record)),
        parameters=_parameters(record.spec),
        points=(*figures(record), *_series(record)),
        tags={
            name: printable(value)[:LONGEST_TAG] for name, value in _tags(record, folder).items()
        },
    )


def artifacts(folder: Path) -> list[Path]:
    """The files to keep with the run; what is too large stays in the folder alone."""
    found = {path: None for pattern in ARTIFACTS for path in sorted(folder.glob(pattern))}
    return [
        path for path in found if path.is_file() and path.stat().st_size <= LARGEST_ARTIFACT_BYTES
    ]


def readable_name(metric: Metric) -> str:
    """`tensor_peak_bytes` -> `memory/peak_MB`."""
    if metric.is_time:
        section = "time"
    elif metric.name.startswith("graph_"):
        section = "graph"
    else:
        section = "memory"
    label = metric.label.removeprefix(f"{section} ").replace(" ", "_")
    return f"{section}/{label}{_READABLE_UNIT[metric.unit][1]}"


def parameter_name(field: str) -> str:
    """The MLflow parameter of a field of the configuration: `scenario.size` -> `size`."""
    group, _, name = field.partition(".")
    if group == "scenario" and name and name not in _RESERVED:
        return name
    return {"device": "device.kind", "measure": "measure.name"}.get(field, field)


def run_name(record: Record) -> str:
    """What ran; in a sweep, with the swept values that this does not say already."""
    spec = record.spec
    words = [spec["scenario"], spec["execution"], f"batch={spec['batch_size']}"]
    parameters = _parameters(spec)
    for field in swept_fields(record):
        name = parameter_name(field)
        if name not in ("scenario", "execution", "batch_size") and name in parameters:
            words.append(f"{name.removesuffix('.kind').removesuffix('.name')}={parameters[name]}")
    return printable(" ".join(words))[:250]


def swept_fields(record: Record) -> list[str]:
    """The fields that the record's sweep varies, as they are typed: `scenario.size`."""
    return [str(field) for field in (record.sweep or {}).get("swept", ())]


_COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2"),
    *("#9c755f", "#edc948", "#ff9da7", "#2f4b7c", "#8cd17d", "#a05195"),
)
_RESERVED = ("scenario", "execution", "batch_size", "seed", "target", "device", "measure")
_MLFLOW_STATUS = {Status.COMPLETED: "FINISHED", Status.INTERRUPTED: "KILLED"}


def _parameters(spec: dict[str, Any]) -> dict[str, str]:
    values = {name: spec[name] for name in ("scenario", "execution", "batch_size", "seed")}
    for field, value in selection.leaves("scenario", spec["parameters"]).items():
        values[parameter_name(field)] = value
    for group in ("device", "measure"):
        values.update({f"{group}.{name}": value for name, value in spec[group].items()})
    return {name: printable(_text(value))[:LONGEST_PARAMETER] for name, value in values.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def figures(record: Record) -> Iterator[Point]:
    """Readable ones first: MLflow lists them in this order."""
    measured = {name: value for name, value in record.metrics.items() if value is not None}
    for name, value in measured.items():
        if name in METRICS:
            scale = _READABLE_UNIT[METRICS[name].unit][0]
            yield Point(readable_name(METRICS[name]), _rounded(value / scale))
    for name, value in measured.items():
        yield Point(name, value)
    for name, (low, high) in record.intervals.items():
        yield Point(f"{name}_low", low)
        yield Point(f"{name}_high", high)


def _series(record: Record) -> Iterator[Point]:
    """Step by step, of the first trial that has the series; thinned out where it is long."""
    for figure, (name, scale) in _SERIES.items():
        series = next((t.steps[figure] for t in record.trials if t.steps.get(figure)), [])
        for step in _thinned(len(series)):
            yield Point(name, _rounded(series[step] / scale), step)


def _thinned(length: int) -> list[int]:
    """At most SERIES_POINTS positions, evenly spread, the first and the last among them."""
    if length <= SERIES_POINTS:
        return list(range(length))
    return [round(i * (length - 1) / (SERIES_POINTS - 1)) for i in range(SERIES_POINTS)]


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _measured_seconds(record: Record) -> float:
    """Time spent in the phases: known from the record alone, also when cells took turns."""
    seconds = (
        figures.get("seconds") for trial in record.trials for figures in trial.phases.values()
    )
    return sum(value for value in seconds if value is not None)


def _tags(record: Record, folder: Path) -> dict[str, str]:
    outcome = record.outcome
    tags = {
        "record": record.id,
        "cell": record.cell,
        "status": outcome.status.value,
        "scenario": record.spec["scenario"],
        "execution": record.spec["execution"],
        "fingerprint": record.fingerprint,
        "folder": str(folder.resolve()),
        "mlflow.source.name": "python -m runner",
        "mlflow.source.type": "LOCAL",
        "mlflow.runColor": _colour(record),
        "mlflow.note.content": note(record, folder),
    }
    if outcome.reason:
        tags["reason"] = outcome.reason
    if outcome.phase:
        tags["phase"] = outcome.phase
    if record.sweep:
        tags["sweep"] = str(record.sweep["id"])
        tags["swept"] = " ".join(swept_fields(record))
        tags["number"] = f"{record.sweep['cell']:05}"  # the table is sorted by it, as text
    return tags


def _colour(record: Record) -> str:
    """Of its point and line in charts; neighbours in a sweep differ."""
    number = (record.sweep or {}).get("cell")
    if number is None:
        number = int(hashlib.sha256(record.cell.encode()).hexdigest(), 16)
    return _COLOURS[number % len(_COLOURS)]


def note(record: Record, folder: Path) -> str:
    """The Markdown on top of the run's page. The page shows five lines of it until it is unfolded,
    so the first two paragraphs say what matters: what came out, and how to do it again."""
    parts = [_outcome(record), fenced(_folded(reproduce(record)))]
    rows = [_row(record, name) for name in METRICS if name in record.metrics]
    if rows:
        head = "| what | value | 95 % interval | meaning |\n| --- | ---: | --- | --- |"
        parts.append("\n".join([head, *rows]))
    missing = [f"- {span(name)}: {in_markdown(why)}" for name, why in record.unavailable.items()]
    if missing:
        parts.append("\n".join(["Not measured:", "", *missing]))
    if record.allocations and record.allocations.groups:
        parts.append(_peak(record.allocations))
    parts.append(f"{_trials(record.trials)}. Everything: {span(str(folder.resolve()))}")
    if record.sweep:
        parts.append(
            "The report and the pictures of the whole sweep are among the artifacts of its first "
            f"cell's run, in `{SWEEP_ARTIFACTS}/`."
        )
    return "\n\n".join(parts)


def _folded(command: str) -> str:
    """In lines that fit: a long one would push the rest of the page out of the window."""
    return textwrap.fill(
        command, 96, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    ).replace("\n", " \\\n")


def _outcome(record: Record) -> str:
    outcome = record.outcome
    status = outcome.status.value.replace("_", " ").capitalize()
    if outcome.completed:
        figures = [_figure(record, name) for name in _HEADLINES if name in record.metrics]
        return f"**{status}**: {', '.join(figures)}." if figures else f"**{status}**."
    where = f" in {span(outcome.phase)}" if outcome.phase else ""
    if not outcome.reason:
        return f"**{status}**{where}."
    # Cut to a length that leaves room for the rest.
    lines = outcome.reason[:2000].splitlines()
    reason = "\n".join(textwrap.fill(line, 96, replace_whitespace=False) for line in lines)
    return f"**{status}**{where}:\n\n{fenced(reason, '~', 'text')}"


def _figure(record: Record, name: str) -> str:
    text = f"{METRICS[name].label} **{readable(name, record.metrics[name])}**"
    interval = record.intervals.get(name)
    return f"{text} ({_between(name, interval)})" if interval else text


def _between(name: str, interval: tuple[float, float]) -> str:
    return f"{readable(name, interval[0])} to {readable(name, interval[1])}"


def _row(record: Record, name: str) -> str:
    metric, interval = METRICS[name], record.intervals.get(name)
    between = _between(name, interval) if interval else ""
    value = readable(name, record.metrics[name])
    return f"| {metric.label} | {value} | {between} | {metric.meaning} |"


def _trials(trials: tuple[Trial, ...]) -> str:
    kinds = [trial.kind for trial in trials]
    counts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
    return f"{' and '.join(counts) or 'No'} {'trial' if len(kinds) == 1 else 'trials'}"


def _peak(allocations: Allocations) -> str:
    """The lines of code that made it or, of an older record, its groups."""
    total = readable_bytes(allocations.total_bytes)
    if not allocations.lines:
        return _groups(allocations)
    rows = [
        f"| {f'{line.file}:{line.line}' if line.file else 'no line'} "
        f"| {f'`{_cell(line.code)}`' if line.code else _cell(line.why)} "
        f"| {line.count} | {readable_bytes(line.bytes)} | {100 * line.share:.0f} % |"
        for line in allocations.lines[:5]
    ]
    left_out = len(allocations.lines) - len(rows)
    more = f"\n\nAnd {left_out} smaller lines: see record.json." if left_out else ""
    head = "| line | code | count | bytes | share |\n| --- | --- | ---: | ---: | ---: |"
    return "\n".join([f"Live at the peak, {total}, made by:", "", head, *rows]) + more


def _groups(allocations: Allocations) -> str:
    rows = [
        f"| {_cell(group.op)} | {_cell(_shape(group.shape))} {_cell(group.dtype)} "
        f"| {group.count} | {readable_bytes(group.bytes)} | {100 * group.share:.0f} % |"
        for group in allocations.groups[:5]
    ]
    left_out = len(allocations.groups) - len(rows)
    more = f"\n\nAnd {left_out} smaller groups: see record.json." if left_out else ""
    head = "| op | tensor | count | bytes | share |\n| --- | --- | ---: | ---: | ---: |"
    total = readable_bytes(allocations.total_bytes)
    return "\n".join([f"Live at the peak, {total}:", "", head, *rows]) + more


def _shape(sizes: tuple[int, ...] | None) -> list[int] | None:
    return None if sizes is None else list(sizes)


def _cell(value: Any) -> str:
    return "" if value is None else in_markdown(str(value))
