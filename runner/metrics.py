"""The metrics: names, units, meanings. MLflow, the report and the README are made from it.

Core: standard library only. A metric's name carries its unit; how a person reads it is decided by
`Metric.readable`, nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Unit = Literal["bytes", "bytes/step", "seconds", "count", "count/step", "per second"]
Source = Literal["memory", "timing", "either"]


@dataclass(frozen=True)
class Metric:
    """One number of a record's `metrics`."""

    name: str
    label: str
    unit: Unit
    source: Source
    meaning: str
    smaller_is_better: bool = True

    @property
    def is_memory(self) -> bool:
        return self.unit in ("bytes", "bytes/step")

    @property
    def is_time(self) -> bool:
        return self.unit in ("seconds", "per second")

    def readable(self, value: float | None) -> str:
        """As a person reads it, with its unit: for terminals, tables and pictures only."""
        if value is None:
            return "unknown"
        if self.unit == "bytes":
            return readable_bytes(value)
        if self.unit == "bytes/step":
            return f"{readable_bytes(value)}/step"
        if self.unit == "seconds":
            return readable_seconds(value)
        if self.unit == "per second":
            return f"{value:,.0f}/s" if value >= 100 else f"{value:.3g}/s"
        number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
        return f"{number}/step" if self.unit == "count/step" else number


_TABLE = (
    Metric("tensor_peak_bytes", "peak", "bytes", "memory",
           "most tensor bytes live at once, from build to the last step"),
    Metric("tensor_step_peak_bytes", "step peak", "bytes", "memory",
           "most tensor bytes above what was live when a steady step began"),
    Metric("tensor_live_bytes", "live", "bytes", "memory",
           "tensor bytes live after the last step"),
    Metric("tensor_retained_bytes", "retained", "bytes", "memory",
           "tensor bytes still live after every reference was dropped"),
    Metric("tensor_growth_bytes_per_step", "growth", "bytes/step", "memory",
           "tensor bytes a step that stay, after warm-up and without garbage"),
    Metric("allocated_bytes_per_step", "allocated", "bytes/step", "memory",
           "tensor bytes requested in one steady step, freed in it or not"),
    Metric("allocations_per_step", "allocations", "count/step", "memory",
           "tensor allocations in one steady step"),
    Metric("allocator_peak_bytes", "allocator peak", "bytes", "memory",
           "TensorFlow's own peak figure, its rounding included"),
    Metric("first_call_tensor_peak_bytes", "first call peak", "bytes", "memory",
           "most tensor bytes above what was live when the first call began"),
    Metric("host_peak_bytes", "host peak", "bytes", "timing",
           "most anonymous resident memory above the trial's start, to the last step"),
    Metric("host_retained_bytes", "host retained", "bytes", "timing",
           "anonymous resident memory above the trial's start, after release"),
    Metric("host_growth_bytes_per_step", "host growth", "bytes/step", "timing",
           "host bytes a step that stay, after warm-up and without garbage"),
    Metric("first_call_host_bytes", "first call host", "bytes", "timing",
           "anonymous resident memory that the first call added"),
    Metric("build_seconds", "build", "seconds", "timing",
           "time to make inputs, variables, models"),
    Metric("first_call_seconds", "first call", "seconds", "timing",
           "time of the first step, tracing and compiling included"),
    Metric("step_seconds", "step", "seconds", "timing",
           "steady step: median over processes of each process's median"),
    Metric("examples_per_second", "examples", "per second", "timing",
           "batch_size / step_seconds, where the batch counts", smaller_is_better=False),
    Metric("graph_traces", "traces", "count", "either",
           "traces made, from build to the last step"),
    Metric("graph_nodes", "graph nodes", "count", "either",
           "nodes in the traced graph, its function bodies included"),
    Metric("graph_nodes_per_step", "graph growth", "count/step", "either",
           "ops added to the graph by a steady step"),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}


def readable(name: str, value: float | None) -> str:
    return METRICS[name].readable(value)


def readable_bytes(value: float) -> str:
    """Decimal units, as allocator limits and file sizes use them: 12.3 MB is 12,300,000 bytes."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= scale * 0.9995:
            return f"{_three_digits(value / scale)} {unit}"
    return f"{value:.0f} B"


_BYTES = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def bytes_of(text: str) -> float | None:
    """What a person means by `120 MB`, `64KiB` or `0 B`; None where it is not a valid amount."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?((?:[kMG]i?)?B)", text.strip())
    return float(found[1]) * _BYTES[found[2]] if found and found[2] in _BYTES else None


def readable_seconds(value: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(value) >= scale * 0.9995:
            return f"{_three_digits(value / scale)} {unit}"
    return f"{_three_digits(value / 1e-9)} ns"


def _three_digits(value: float) -> str:
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{decimals}f}"
