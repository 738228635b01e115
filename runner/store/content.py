"""A record as MLflow keeps it: parameters, metrics, tags, files.

Exact metrics keep the contract's names. Beside them stand rounded ones in readable units, whose
names carry the unit and a section (`memory/peak_MB`): MLflow draws a section of charts for each.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runner import schema
from runner.config import Spec
from runner.facts import StepSeries
from runner.metrics import METRICS, Metric
from runner.records import Record, Status
from runner.render.files.note import write_note
from runner.sanitize import make_printable

ARTIFACTS = (
    *("record.json", "trials.jsonl", "timeline.json", "allocations.folded"),
    *("report.html", "fit.svg"),  # no other page or picture: it could hold a script
    *(f"*.{kind}" for kind in ("yaml", "log", "png", "csv", "md")),
)
"""The files of a run's folder that are kept with its run, where they are there."""

SWEEP_ARTIFACTS = "sweep"
"""Where the run of a sweep's first cell has the files of the whole sweep."""

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
_SERIES: tuple[tuple[Callable[[StepSeries], Sequence[float]], str, float], ...] = (
    (lambda steps: steps.seconds, "steps/step_ms", 1e-3),
    (lambda steps: steps.tensor_live_bytes, "steps/tensor_live_MB", 1e6),
    (lambda steps: steps.host_bytes, "steps/host_MB", 1e6),
)
"""The series that a trial reads at each step, the metric that shows it, and its unit."""


@dataclass(frozen=True)
class MetricPoint:
    """One value of a metric, as MLflow keeps it."""

    name: str
    value: float
    step: int = 0


@dataclass(frozen=True)
class RunContent:
    """One MLflow run, whole."""

    name: str
    status: str
    """MLflow's own word for the outcome; the record's is a tag."""
    started_ms: int
    ended_ms: int
    parameters: dict[str, str]
    points: tuple[MetricPoint, ...]
    tags: dict[str, str]
    record_digest: str
    """The same for the same record, wherever it lies."""

    @property
    def digest(self) -> str:
        """Return the same as long as the record, and what MLflow can't overwrite, are the same."""
        points = [repr(point) for point in self.points]
        whole = (self.record_digest, self.started_ms, sorted(self.parameters.items()), points)
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16]


def describe_record(record: Record, folder: Path) -> RunContent:
    """Return what becomes of the record in `folder`."""
    # The time in the phases: known from the record alone, also when cells took turns.
    phases = (each for trial in record.trials for each in trial.phases.values())
    seconds = sum(each.seconds or 0.0 for each in phases)
    started_ms = round(datetime.fromisoformat(record.started_at).timestamp() * 1000)
    return RunContent(
        name=name_run(record),
        status=_MLFLOW_STATUS.get(record.outcome.status, "FAILED"),
        started_ms=started_ms,
        ended_ms=started_ms + round(1000 * seconds),
        parameters=_list_parameters(record.spec),
        points=(*list_figures(record), *_list_series(record)),
        tags=_list_tags(record, folder),
        record_digest=hashlib.sha256(schema.encode(record)).hexdigest(),
    )


def list_artifacts(folder: Path) -> list[Path]:
    """Return the files to keep with a run; what is too large stays in the folder alone.

    A link is none: in a folder that somebody else gave away it may lead to any file of the user's.
    """
    found = {path: None for pattern in ARTIFACTS for path in sorted(folder.glob(pattern))}
    return [
        path
        for path in found
        if not path.is_symlink()
        and path.is_file()
        and path.stat().st_size <= LARGEST_ARTIFACT_BYTES
    ]


def name_metric(metric: Metric) -> str:
    """Return `memory/peak_MB` for `tensor_peak_bytes`."""
    if metric.is_time:
        section = "time"
    elif metric.name.startswith("graph_"):
        section = "graph"
    else:
        section = "memory"
    label = metric.label.removeprefix(f"{section} ").replace(" ", "_")
    return f"{section}/{label}{_READABLE_UNIT[metric.unit][1]}"


def name_parameter(field: str) -> str:
    """Return the parameter of a field of the configuration: `size` for `scenario.size`."""
    group, _, name = field.partition(".")
    if group == "scenario" and name and name not in _RESERVED:
        return name
    return {"device": "device.kind", "measure": "measure.name"}.get(field, field)


def name_run(record: Record) -> str:
    """Return what ran; in a sweep, with the swept values that this does not say already."""
    spec = record.spec
    words = [spec.scenario, spec.execution, f"batch={spec.batch_size}"]
    parameters = _list_parameters(spec)
    for field in record.sweep.swept if record.sweep else ():
        name = name_parameter(field)
        if name not in ("scenario", "execution", "batch_size") and name in parameters:
            words.append(f"{name.removesuffix('.kind').removesuffix('.name')}={parameters[name]}")
    return make_printable(" ".join(words))[:250]


_COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2"),
    *("#9c755f", "#edc948", "#ff9da7", "#2f4b7c", "#8cd17d", "#a05195"),
)
_RESERVED = ("scenario", "execution", "batch_size", "seed", "target", "device", "measure")
_MLFLOW_STATUS = {Status.COMPLETED: "FINISHED", Status.INTERRUPTED: "KILLED"}


def _list_parameters(spec: Spec) -> dict[str, str]:
    values = {name_parameter(field): value for field, value in spec.fields.items()}
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
    return {name: make_printable(text)[:LONGEST_PARAMETER] for name, text in texts.items()}


def list_figures(record: Record) -> Iterator[MetricPoint]:
    """Yield a record's metrics, readable ones first: MLflow lists them in this order."""
    measured = {name: value for name, value in record.metrics.items() if value is not None}
    for name, value in measured.items():
        if name in METRICS:
            scale = _READABLE_UNIT[METRICS[name].unit][0]
            yield MetricPoint(name_metric(METRICS[name]), _round(value / scale))
    for name, value in measured.items():
        yield MetricPoint(name, value)
    for name, (low, high) in record.intervals.items():
        yield MetricPoint(f"{name}_low", low)
        yield MetricPoint(f"{name}_high", high)


def _list_series(record: Record) -> Iterator[MetricPoint]:
    """Yield each series of the first trial that has it, thinned out where it is long."""
    for read, name, scale in _SERIES:
        found = ((trial.steps, read(trial.steps)) for trial in record.trials)
        steps, series = next((each for each in found if each[1]), (None, ()))
        stride = steps.get_stride(series) if steps else 1
        last, count = len(series) - 1, min(len(series), SERIES_POINTS)
        for place in (round(i * last / max(1, count - 1)) for i in range(count)):
            yield MetricPoint(name, _round(series[place] / scale), place * stride)


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _list_tags(record: Record, folder: Path) -> dict[str, str]:
    outcome, sweep = record.outcome, record.sweep
    # Neighbours in a sweep differ in the colour of their points and lines in charts.
    colour = _COLOURS[(sweep.cell if sweep else zlib.crc32(record.cell.encode())) % len(_COLOURS)]
    note = write_note(record, folder)
    if sweep:
        note += f"\n\nThe sweep's report is with its first cell's run, in `{SWEEP_ARTIFACTS}/`."
    tags = {
        "record": record.id,
        "cell": record.cell,
        "status": outcome.status.value,
        "scenario": record.spec.scenario,
        "execution": record.spec.execution,
        "fingerprint": record.fingerprint,
        "folder": str(folder.resolve()),
        "mlflow.source.name": "python -m runner",
        "mlflow.source.type": "LOCAL",
        "mlflow.runColor": colour,
        "mlflow.note.content": note,
    }
    if outcome.reason:
        tags["reason"] = outcome.reason
    if outcome.phase:
        tags["phase"] = outcome.phase
    if sweep:
        tags["sweep"] = sweep.id
        tags["swept"] = " ".join(sweep.swept)
        tags["number"] = f"{sweep.cell:05}"  # the table is sorted by it, as text
    return {name: make_printable(value)[:LONGEST_TAG] for name, value in tags.items()}
