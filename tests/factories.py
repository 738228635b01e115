"""Records as real runs leave them, in folders as real runs leave them, without running anything."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from runner import records
from runner.allocations import (
    Allocations,
    Frame,
    Group,
    LeakedGroup,
    LinePart,
    Scope,
    SourceLine,
    Split,
)
from runner.analysis import estimate
from runner.config import Device, MeasureSpec, Spec
from runner.facts import PhaseFigures, StepSeries, TrialFacts
from runner.machine import Environment, Gpu
from runner.records import COMPLETED, Outcome, Phase, Record, Status, SweepPlace, Trial

MEASURE = MeasureSpec(
    name="quick",
    timing_processes=3,
    memory_processes=1,
    warmup_steps=2,
    steps=200,
    min_steps=5,
    max_seconds=1.0,
    memory_steps=5,
    timeout_seconds=120.0,
    host_limit_mb=None,
)
DEVICE = Device("cpu", 0, None, None, None)
ENVIRONMENT = Environment(
    versions={"tensorflow": "2.21.0"},
    python="3.11.7",
    cpu="a CPU",
    cores=2,
    memory_bytes=25_000_000_000,
    kernel="6.1",
    host="here",
    gpu=Gpu(driver=None, cards=None, reason="no driver"),
    flags={},
    git=None,
    load=0.5,
)

_PASSING = Split(0, 0, 0, 600)
_FOR_GRADIENT = Split(0, 0, 300, 0)
_FRAMES = (
    Frame("train.py", 3, "step", "loss = model(x)"),
    Frame("model.py", 7, "Model.call", "return tf.matmul(x, self.weight)"),
)
ALLOCATIONS = Allocations(
    total_bytes=900,
    phase="steps",
    step=2,
    split=Split(0, 0, 300, 600),
    groups=(
        Group("MatMul", (3, 50), "float32", 1, 600, 2 / 3, _PASSING,
              (Scope("model/dense", 1, 600),)),
        Group("Mul", (75,), "float32", 1, 300, 1 / 3, _FOR_GRADIENT,
              (Scope("model/dense/(gradient)", 1, 300),)),
    ),
    lines=(
        SourceLine("model.py", 7, "return tf.matmul(x, self.weight)", 2, 870, 870 / 900,
             Split(0, 0, 270, 600),
             (
                 LinePart("MatMul", (3, 50), "float32", "model/dense", (0, 1), 1, 600, _PASSING),
                 LinePart("Mul", (75,), "float32", "model/dense/(gradient)", (0, 1), 1, 270,
                      Split(0, 0, 270, 0)),
             )),
        SourceLine(None, None, None, 1, 30, 30 / 900, Split(0, 0, 30, 0),
             (LinePart("Mul", (75,), "float32", "", (), 1, 30, Split(0, 0, 30, 0)),),
             why="no call into TensorFlow was under way"),
    ),
    frames=_FRAMES,
    leaks=(LeakedGroup("Square", "", (7,), "float32", 4, 112, 1.0, 28.0, (0,)),),
    leak_steps=4,
)  # fmt: skip
"""A peak of which every line's bytes are known."""


def completed(
    id: str = "20250101-120000-a1b2c3",
    *,
    scenario: str = "while_loop",
    execution: str = "graph",
    batch_size: int = 32,
    sweep: SweepPlace | None = None,
    started_at: str = "2025-01-01T12:00:00.250000+00:00",
    **parameters: Any,
) -> Record:
    """A run that went through. Its state is M bytes; python_loop keeps every one of them."""
    parameters = {"iterations": 100, "size": 100, "gradient": "tape", **parameters}
    state = batch_size * parameters["size"] * 4
    weight = parameters["size"] ** 2 * 4
    kept = parameters["iterations"] if scenario == "python_loop" else 3
    peak = weight + kept * state
    step_seconds = 1e-5 * parameters["iterations"] * (1 + batch_size / 100)
    timing = [
        Trial(
            "timing",
            index,
            COMPLETED,
            phases={
                Phase.BUILD: PhaseFigures(seconds=0.01),
                Phase.FIRST_CALL: PhaseFigures(seconds=0.05),
                Phase.STEPS: PhaseFigures(seconds=200 * step_seconds),
                Phase.RELEASE: PhaseFigures(seconds=0.002),
            },
            steps=StepSeries(
                seconds=tuple(step_seconds * (1 + (i * 7 % 13) / 100) for i in range(500)),
                host_bytes=tuple(1e6 + 4096.0 * i for i in range(500)),
            ),
        )
        for index in range(3)
    ]
    memory = Trial(
        "memory",
        0,
        COMPLETED,
        phases={
            Phase.BUILD: PhaseFigures(seconds=0.02),
            Phase.FIRST_CALL: PhaseFigures(seconds=0.1),
        },
        steps=StepSeries(tensor_live_bytes=(weight + state,) * 5),
    )
    spec = Spec(
        scenario=scenario,
        target="scenarios.loops.WhileLoop",
        parameters=parameters,
        execution=execution,
        device=DEVICE,
        batch_size=batch_size,
        seed=0,
        measure=MEASURE,
    )
    return Record(
        id=id,
        cell=spec.cell,
        started_at=started_at,
        spec=spec,
        outcome=COMPLETED,
        metrics={
            "tensor_peak_bytes": peak,
            "tensor_step_peak_bytes": peak - weight,
            "tensor_live_bytes": weight + state,
            "tensor_retained_bytes": 0,
            "tensor_growth_bytes_per_step": 0,
            "allocations_per_step": 3 * parameters["iterations"],
            "host_peak_bytes": 31_457_280 + peak,
            "host_growth_bytes_per_step": None,
            "build_seconds": 0.01,
            "first_call_seconds": 0.05,
            "step_seconds": step_seconds,
            "examples_per_second": batch_size / step_seconds,
            "graph_traces": 1,
            "graph_nodes": 57,
        },
        unavailable={"host_growth_bytes_per_step": "needs 200 steps, or 10 s of them"},
        intervals={"step_seconds": (step_seconds * 0.97, step_seconds * 1.04)},
        trials=(*timing, memory),
        allocations=msgspec.convert(
            {
                "total_bytes": peak,
                "phase": "steps",
                "step": 2,
                "groups": [
                    {
                        "op": "MatMul",
                        "shape": [batch_size, parameters["size"]],
                        "dtype": "float32",
                        "count": kept,
                        "bytes": kept * state,
                        "share": kept * state / peak,
                    },
                    {
                        "op": "Fill",
                        "shape": [parameters["size"], parameters["size"]],
                        "dtype": "float32",
                        "count": 1,
                        "bytes": weight,
                        "share": weight / peak,
                    },
                ],
            },
            Allocations,
        ),
        environment=ENVIRONMENT,
        fingerprint="f1f1f1f1",
        sweep=sweep,
    )


def failed(
    id: str = "20250101-120100-d4e5f6",
    status: Status = Status.OUT_OF_MEMORY,
    reason: str = "OOM when allocating tensor with shape[512,100] | on <CPU>\n  in my_step, line 7",
    **like: Any,
) -> Record:
    """A run that ended in its first call; nothing could be measured."""
    outcome = Outcome(status, "first_call", reason)
    return dataclasses.replace(
        completed(id, **like),
        outcome=outcome,
        metrics={"tensor_peak_bytes": None, "step_seconds": None},
        unavailable={"tensor_peak_bytes": "no memory trial completed", "step_seconds": "no steps"},
        intervals={},
        trials=(Trial("timing", 0, outcome),),
        allocations=None,
    )


def measured(*trials: Trial, **like: Any) -> Record:
    """A run whose metrics follow from these trials, as they do in a real one."""
    record = completed(**like)
    estimated = estimate.estimate_metrics(trials, record.spec)
    ended = next((trial.outcome for trial in trials if not trial.outcome.completed), COMPLETED)
    return dataclasses.replace(
        record,
        outcome=ended,
        trials=trials,
        metrics=estimated.metrics,
        unavailable=estimated.unavailable,
        intervals=estimated.intervals,
    )


def timing_trial(
    seconds: Sequence[float] = (0.001,) * 7,
    host_bytes: Sequence[float] | None = None,
    *,
    index: int = 0,
    build_seconds: float = 0.01,
    first_call_seconds: float = 0.05,
    host_peak_bytes: float = 30e6,
    **facts: Any,
) -> Trial:
    """A timing trial as the worker sends it of a scenario that has a batch; the first two of its
    steps are warm-up."""
    host_bytes = [25e6] * len(seconds) if host_bytes is None else list(host_bytes)

    def phase(seconds: float, host: float, peak: float) -> PhaseFigures:
        return PhaseFigures(seconds=seconds, host_bytes=host, host_peak_bytes=peak)

    return Trial(
        "timing",
        index,
        COMPLETED,
        phases={
            Phase.BUILD: phase(build_seconds, 20e6, 21e6),
            Phase.FIRST_CALL: phase(first_call_seconds, 24e6, 29e6),
            Phase.STEPS: phase(sum(seconds), host_bytes[-1], host_peak_bytes),
            Phase.RELEASE: phase(0.002, 5e6, 90e6),
        },
        steps=StepSeries(seconds=tuple(seconds), host_bytes=tuple(host_bytes)),
        facts=TrialFacts(**{"warmup_steps": 2, "unavailable": {}, "batched": True, **facts}),
    )


def memory_trial(
    peak_bytes: float = 500_000,
    live_bytes: Sequence[float] = (40_000,) * 5,
    *,
    index: int = 0,
    **facts: Any,
) -> Trial:
    """A memory trial as the worker sends it."""
    steps = len(live_bytes)
    return Trial(
        "memory",
        index,
        COMPLETED,
        phases={
            Phase.BUILD: PhaseFigures(
                seconds=0.02, tensor_peak_bytes=60_000, tensor_live_bytes=40_000
            ),
            Phase.FIRST_CALL: PhaseFigures(seconds=0.1, tensor_peak_bytes=240_000),
        },
        steps=StepSeries(
            tensor_live_bytes=tuple(live_bytes),
            tensor_begin_bytes=(40_000,) * steps,
            tensor_peak_bytes=(120_000,) * steps,
            allocated_bytes=(300_000,) * steps,
            allocations=(12,) * steps,
        ),
        facts=TrialFacts(
            **{
                "tensor_peak_bytes": round(peak_bytes),
                "tensor_retained_bytes": 0,
                "allocator_peak_bytes": round(peak_bytes + 12_000),
                "unavailable": {},
                **facts,
            }
        ),
    )


def ended_trial(kind: str, status: Status, phase: str, reason: str, index: int = 0) -> Trial:
    """A trial that did not get through, with the samples that it had by then."""
    figures = {Phase.BUILD: PhaseFigures(seconds=0.01)}
    return Trial(kind, index, Outcome(status, phase, reason), phases=figures)


def read_run(folder: Path) -> tuple[Record, Path]:
    """Return the record in a folder, and the folder."""
    return records.read(folder), folder


def sweep_of_nine(name: str = "2025-01-01-13-00-00-ab12") -> list[Record]:
    """Three ways to loop, three batch sizes; the largest unrolled one ran out of memory."""
    found = []
    cells = itertools.product(("python_loop", "while_loop", "numpy_loop"), (32, 128, 512))
    for number, (scenario, batch_size) in enumerate(cells):
        like: dict[str, Any] = {
            "scenario": scenario,
            "execution": "graph",
            "batch_size": batch_size,
            "started_at": f"2025-01-01T13:00:{number:02}+00:00",
            "sweep": SweepPlace(
                name, number, {"scenario": scenario, "batch_size": str(batch_size)}
            ),
        }
        identity = f"{name}-{number}"
        out_of_memory = scenario == "python_loop" and batch_size == 512
        found.append((failed if out_of_memory else completed)(identity, **like))
    return found


def sweep_of_sixteen(name: str = "2025-01-01-13-00-00-ab16") -> list[Record]:
    """Two ways to loop, two executions, two batch sizes, two seeds; all completed."""
    found = []
    fields = (("python_loop", "while_loop"), ("eager", "graph"), (32, 256), (0, 1))
    for number, (scenario, execution, batch_size, seed) in enumerate(itertools.product(*fields)):
        swept = {
            "scenario": scenario,
            "execution": execution,
            "batch_size": str(batch_size),
            "seed": str(seed),
        }
        record = completed(
            f"{name}-{number}",
            scenario=scenario,
            execution=execution,
            batch_size=batch_size,
            started_at=f"2025-01-01T13:00:{number:02}+00:00",
            sweep=SweepPlace(name, number, swept),
        )
        spec = dataclasses.replace(record.spec, seed=seed)
        found.append(dataclasses.replace(record, spec=spec, cell=spec.cell))
    return found


def kept(record: Record, folder: Path) -> Path:
    """The record's folder, with everything in it that a real run leaves."""
    folder.mkdir(parents=True)
    for trial in record.trials:
        records.append_trial(trial, folder, record.cell)
    (folder / "config.yaml").write_text("batch_size: 32\n")
    (folder / "run.log").write_text("what TensorFlow said\n")
    records.write(record, folder)
    return folder
