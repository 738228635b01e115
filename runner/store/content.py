"""A record as MLflow keeps it: parameters, metrics, tags, files.

Metrics keep the contract's names, parameters the words that people type. Beside the few metrics
that MLflow's pages show first stand rounded ones in readable units, such as `Peak_MB`.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runner import schema
from runner.config import format_word
from runner.facts import StepSeries
from runner.metrics import HEADLINES, METRICS, Metric, Rank, list_shown
from runner.records import Record, Status, SweepPlace
from runner.render import peak
from runner.render.files.note import write_note
from runner.sanitize import make_printable

ARTIFACTS = (
    *("record.json", "trials.jsonl", "timeline.json", "allocations.folded"),
    *("report.html", "fit.svg"),  # no other page or picture: it could hold a script
    *(f"*.{kind}" for kind in ("yaml", "log", "png", "csv", "md")),
)
"""The files of a run's folder that are kept with its run, where they are there."""

LARGEST_ARTIFACT_BYTES = 32_000_000
STARTED = "started"
"""A tag by which the table of all runs is sorted."""
SOURCE = {"mlflow.source.name": "python -m runner", "mlflow.source.type": "LOCAL"}
LONGEST_PARAMETER = 6000
LONGEST_TAG = 8000
MOST_TABLE_ROWS = 100
SERIES_POINTS = 50

FIRST_SCREEN = tuple(dict.fromkeys((*HEADLINES, *list_shown(Rank.TABLE))))
"""The metrics that are also kept in readable units, the most important first."""

_READABLE_UNIT = {
    "bytes": (1e6, "_MB"),
    "bytes/step": (1e3, "_kB_per_step"),
    "seconds": (1e-3, "_ms"),
}
"""By unit of those metrics: what a readable figure is divided by, and how its name ends."""
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


def find_kind(folder: Path) -> str:
    """Return what a folder with several cells is: `fit`, `leak`, `claim` or `sweep`."""
    kind = folder.resolve().parent.parent.name.removesuffix("s")
    return kind if kind in ("fit", "leak", "claim") else "sweep"


def name_parent(sweep: SweepPlace, scenario: str, folder: Path) -> str:
    """Return what a sweep varies, `loops: scenario, iterations`: the name of the run above its
    cells. Of a fit, a leak hunt or claims it begins with that; a hunt that varies nothing is named
    by its scenario."""
    kind = find_kind(folder)
    fields = ", ".join(field.rpartition(".")[2] for field in sweep.swept)
    return make_printable(f"{sweep.experiment or kind}: {fields or scenario}")[:250]


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
    tables: dict[str, str]
    """Tables that MLflow can compare over runs, by the name of their file."""

    @property
    def digest(self) -> str:
        """Return the same as long as the record, and what MLflow can't overwrite, are the same."""
        points = [repr(point) for point in self.points]
        whole = (self.record_digest, self.started_ms, sorted(self.parameters.items()), points)
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16]


def describe_record(record: Record, folder: Path) -> RunContent:
    """Return what becomes of the record in `folder`."""
    # The time in the phases: known from the record alone, also when cells took turns.
    phases = (phase for trial in record.trials for phase in trial.phases.values())
    seconds = sum(phase.seconds or 0.0 for phase in phases)
    started_ms = find_start(record)
    tables = list_tables(record)
    return RunContent(
        name=name_run(record),
        status=_MLFLOW_STATUS.get(record.outcome.status, "FAILED"),
        started_ms=started_ms,
        ended_ms=started_ms + round(1000 * seconds),
        parameters=_list_parameters(record),
        points=(*list_figures(record), *_list_series(record)),
        tags=_list_tags(record, folder, tables),
        record_digest=hashlib.sha256(schema.encode(record)).hexdigest(),
        tables=tables,
    )


def find_start(record: Record) -> int:
    """Return when a measurement began, in ms."""
    return round(datetime.fromisoformat(record.started_at).timestamp() * 1000)


def write_time(milliseconds: int) -> str:
    """Return a moment so that an earlier one comes first as text."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(" ", "milliseconds")[:-6]


def list_artifacts(folder: Path) -> list[Path]:
    """Return the files to keep with a run; what is too large stays in the folder alone.

    A link is none: in a folder that somebody else gave away it may lead to any file of the user's.
    """
    files = {path: None for pattern in ARTIFACTS for path in sorted(folder.glob(pattern))}
    return [
        path
        for path in files
        if not path.is_symlink()
        and path.is_file()
        and path.stat().st_size <= LARGEST_ARTIFACT_BYTES
    ]


def list_tables(record: Record) -> dict[str, str]:
    """Return the lines and layers that made the peak, by the name of their file, as MLflow's
    `log_table` writes them: its pages put such tables of several runs side by side."""
    if record.allocations is None:
        return {}
    slices_of = {
        "lines.json": peak.slice_by_line(record.allocations),
        "layers.json": peak.slice_by_layer(record.allocations),
    }
    total = record.allocations.total_bytes or 1
    return {
        file: json.dumps(
            {
                "columns": [file.removesuffix("s.json"), "bytes", "share", "count", "code"],
                "data": [
                    [part.name, part.bytes, _round(part.bytes / total), part.count, part.code]
                    for part in slices[:MOST_TABLE_ROWS]
                ],
            }
        )
        for file, slices in slices_of.items()
        if slices
    }


def name_metric(metric: Metric) -> str:
    """Return `Peak_MB` for `tensor_peak_bytes`.

    MLflow's compare page sorts names as bytes, so a capital stands before all exact names.
    """
    return metric.label.capitalize().replace(" ", "_") + _READABLE_UNIT[metric.unit][1]


def name_run(record: Record) -> str:
    """Return what ran: first what a sweep varies, and the scenario, which is long, last.

    MLflow's pages cut a name after some twenty letters: `graph 256 s1 while_loop`.
    """
    spec = record.spec
    if record.sweep is None:
        return make_printable(f"{spec.scenario} {spec.execution} batch={spec.batch_size}")[:250]
    words = []
    for field, said in record.sweep.swept.items():
        if field != "scenario":
            value = format_word(spec.fields.get(field, said))
            words.append(_SHORT_WORDS.get(field, f"{field.rpartition('.')[2]}=") + value)
    words.append(spec.scenario)
    if "execution" not in record.sweep.swept:
        words.append(spec.execution)
    return make_printable(" ".join(words))[:250]


_SHORT_WORDS = {"execution": "", "batch_size": "", "seed": "s", "device": "", "measure": ""}
"""Fields whose values are known without their names: what stands before each in a run's name."""
_COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#9c755f"),
    *("#edc948", "#ff9da7", "#2f4b7c", "#8cd17d", "#a05195", "#86bcb6", "#79706e"),
    *("#a0cbe8", "#ffbe7d", "#003f5c", "#d37295", "#b6992d", "#bab0ac", "#ff7c43"),
)
_MLFLOW_STATUS = {Status.COMPLETED: "FINISHED", Status.INTERRUPTED: "KILLED"}


def _list_parameters(record: Record) -> dict[str, str]:
    """Return what was asked for, by the words that people type, without what was left unset: pages
    that compare runs list each parameter that any of them has."""
    swept = record.sweep.swept if record.sweep else {}
    return {
        name: make_printable(format_word(value))[:LONGEST_PARAMETER]
        for name, value in record.spec.fields.items()
        if value is not None or name in swept
    }


def list_figures(record: Record) -> Iterator[MetricPoint]:
    """Yield a record's metrics, readable ones first: MLflow lists them in this order."""
    for name in FIRST_SCREEN:
        if (value := record.metrics.get(name)) is not None:
            scale = _READABLE_UNIT[METRICS[name].unit][0]
            yield MetricPoint(name_metric(METRICS[name]), _round(value / scale))
    for name, value in record.metrics.items():
        if value is not None:
            yield MetricPoint(name, value)


def _list_series(record: Record) -> Iterator[MetricPoint]:
    """Yield each series of the first trial that has it, thinned out where it is long."""
    for read, name, scale in _SERIES:
        known = ((trial.steps, read(trial.steps)) for trial in record.trials)
        steps, series = next((pair for pair in known if pair[1]), (None, ()))
        stride = steps.get_stride(series) if steps else 1
        last, count = len(series) - 1, min(len(series), SERIES_POINTS)
        for place in (round(i * last / max(1, count - 1)) for i in range(count)):
            yield MetricPoint(name, _round(series[place] / scale), place * stride)


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _list_tags(record: Record, folder: Path, tables: Iterable[str]) -> dict[str, str]:
    outcome, sweep = record.outcome, record.sweep
    # Neighbours in a sweep differ in the colour of their points and lines in charts.
    colour = _COLOURS[(sweep.cell if sweep else zlib.crc32(record.cell.encode())) % len(_COLOURS)]
    tags = {
        "record": record.id,
        "cell": record.cell,
        "status": outcome.status.value,
        "scenario": record.spec.scenario,
        "execution": record.spec.execution,
        "fingerprint": record.fingerprint,
        "folder": str(folder.resolve()),
        STARTED: write_time(find_start(record)),
        **SOURCE,
        "mlflow.runColor": colour,
        "mlflow.note.content": write_note(record, folder),
    }
    if outcome.reason:
        tags["reason"] = outcome.reason
    if outcome.phase:
        tags["phase"] = outcome.phase
    if sweep:
        tags["sweep"] = sweep.id
        tags["swept"] = " ".join(sweep.swept)
        tags["number"] = f"{sweep.cell:05}"  # the table is sorted by it, as text
        if sweep.experiment:
            tags["experiment"] = sweep.experiment
    if record.environment.git and record.environment.git.revision:
        tags["mlflow.source.git.commit"] = record.environment.git.revision
    if tables:
        logged = [{"path": name, "type": "table"} for name in tables]
        tags["mlflow.loggedArtifacts"] = json.dumps(logged)
    return {name: make_printable(value)[:LONGEST_TAG] for name, value in tags.items()}
