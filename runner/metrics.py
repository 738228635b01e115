"""The metrics: names, units, meanings, and where each is shown. Core: standard library only.

A new metric is a line here and a line in `analysis/estimate.py`. The terminal, the pages, the
tables, MLflow and the comparison ask this table what to show; no other file lists metrics. A name
carries its unit; how a person reads a value is decided by `Metric.format`, nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

Unit = Literal["bytes", "bytes/step", "seconds", "count", "count/step", "per second"]
Source = Literal["memory", "timing", "either"]

TENSOR_PEAK = "tensor_peak_bytes"
TENSOR_LIVE = "tensor_live_bytes"
TENSOR_GROWTH = "tensor_growth_bytes_per_step"
ALLOCATOR_PEAK = "allocator_peak_bytes"
HOST_PEAK = "host_peak_bytes"
HOST_GROWTH = "host_growth_bytes_per_step"
BUILD_SECONDS = "build_seconds"
STEP_SECONDS = "step_seconds"
FIRST_CALL_SECONDS = "first_call_seconds"
EXAMPLES_PER_SECOND = "examples_per_second"


class Rank(IntEnum):
    """The prominence of a metric: what is shown in one place is shown in those below it, too."""

    HEADLINE = 1
    """Speaks for memory, or for time: the last sentence of a comparison, the order of a table."""
    TABLE = 2
    """A column where there is room for few: a sweep in the terminal and in MLflow."""
    RUN = 3
    """Among a run's own figures: in the terminal, at the top of its page and of its MLflow note."""
    PAGE = 4
    """A column of a sweep's page."""
    DETAIL = 5
    """Among all figures of a record, and where it is asked for."""


@dataclass(frozen=True)
class Metric:
    """One number of a record's `metrics`."""

    name: str
    label: str
    unit: Unit
    source: Source
    meaning: str
    rank: Rank = Rank.DETAIL
    smaller_is_better: bool = True
    is_compared: bool = False
    """`compare` takes it, unless metrics are named."""
    is_growth: bool = False
    op_order: Literal["matters", "does not matter", ""] = ""
    """Does another order of a graph's ops give another figure? Where a peak
    differs by that, those that don't are compared beside it."""
    heading: str = ""
    """The label where nothing beside it says that it is of tensors."""
    row: str = ""
    """The label in the list of a run's figures: indented, it belongs to the row above it."""
    noun: str = ""
    """The thing that a sentence says a cell needs more or less of."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "heading", self.heading or self.label)
        object.__setattr__(self, "row", self.row or self.heading)

    @property
    def is_memory(self) -> bool:
        return self.unit in ("bytes", "bytes/step")

    @property
    def is_time(self) -> bool:
        return self.unit in ("seconds", "per second")

    def format(self, value: float | None) -> str:
        """Return a value with its unit as a person reads it, in terminals, tables and pictures."""
        if value is None:
            return "unknown"
        if self.unit == "bytes":
            return format_bytes(value)
        if self.unit == "bytes/step":
            return f"{format_bytes(value)}/step"
        if self.unit == "seconds":
            return format_seconds(value)
        if self.unit == "per second":
            return f"{value:,.0f}/s" if value >= 100 else f"{value:.3g}/s"
        number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
        return f"{number}/step" if self.unit == "count/step" else number

    def format_range(self, low: float, high: float) -> str:
        """Return `104 to 117 kB`; one value where both read the same."""
        first, last = self.format(low), self.format(high)
        if first == last:
            return last
        number, _, unit = first.rpartition(" ")
        return f"{number if last.endswith(f' {unit}') else first} to {last}"


_TABLE = (
    Metric(TENSOR_PEAK, "peak", "bytes", "memory",
           "most tensor bytes live at once, from build to the last step", Rank.HEADLINE,
           is_compared=True, op_order="matters", heading="tensor peak", noun="peak memory"),
    Metric("tensor_step_peak_bytes", "step peak", "bytes", "memory",
           "most tensor bytes above what was live when a steady step began", Rank.RUN,
           op_order="matters", row="  of a step", noun="memory in a step"),
    Metric(TENSOR_LIVE, "live", "bytes", "memory",
           "tensor bytes live after the last step", op_order="does not matter"),
    Metric("tensor_retained_bytes", "retained", "bytes", "memory",
           "tensor bytes still live after every reference was dropped"),
    Metric(TENSOR_GROWTH, "growth", "bytes/step", "memory",
           "tensor bytes a step that stay, after warm-up and without garbage", Rank.TABLE,
           is_compared=True, is_growth=True, row="  growth"),
    Metric("allocated_bytes_per_step", "allocated", "bytes/step", "memory",
           "tensor bytes requested in one steady step, freed in it or not",
           op_order="does not matter"),
    Metric("allocations_per_step", "allocations", "count/step", "memory",
           "tensor allocations in one steady step", op_order="does not matter"),
    Metric(ALLOCATOR_PEAK, "allocator peak", "bytes", "memory",
           "TensorFlow's own peak figure, its rounding included"),
    Metric("first_call_tensor_peak_bytes", "first call peak", "bytes", "memory",
           "most tensor bytes above what was live when the first call began"),
    Metric(HOST_PEAK, "host peak", "bytes", "timing",
           "most anonymous resident memory above the trial's start, to the last step", Rank.TABLE,
           is_compared=True, noun="peak host memory"),
    Metric("host_retained_bytes", "host retained", "bytes", "timing",
           "anonymous resident memory above the trial's start, after release"),
    Metric(HOST_GROWTH, "host growth", "bytes/step", "timing",
           "host bytes a step that stay, after warm-up and without garbage", Rank.RUN,
           is_growth=True, row="  growth"),
    Metric("first_call_host_bytes", "first call host", "bytes", "timing",
           "anonymous resident memory that the first call added"),
    Metric(BUILD_SECONDS, "build", "seconds", "timing",
           "time to make inputs, variables, models"),
    Metric(STEP_SECONDS, "step", "seconds", "timing",
           "steady step: median over processes of each process's median", Rank.HEADLINE,
           is_compared=True, noun="time"),
    Metric(FIRST_CALL_SECONDS, "first call", "seconds", "timing",
           "time of the first step, tracing and compiling included", Rank.TABLE),
    Metric(EXAMPLES_PER_SECOND, "examples", "per second", "timing",
           "batch_size / step_seconds, where the batch counts", Rank.RUN, smaller_is_better=False),
    Metric("graph_traces", "traces", "count", "either",
           "traces made, from build to the last step", Rank.PAGE),
    Metric("graph_nodes", "graph nodes", "count", "either",
           "nodes in the traced graph, its function bodies included"),
    Metric("graph_nodes_per_step", "graph growth", "count/step", "either",
           "ops added to the graph by a steady step"),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}
COMPARED = tuple(metric.name for metric in _TABLE if metric.is_compared)


def list_shown(rank: Rank) -> tuple[str, ...]:
    """Return the names of the metrics that are shown where there is room for this rank."""
    return tuple(metric.name for metric in _TABLE if metric.rank <= rank)


HEADLINES = list_shown(Rank.HEADLINE)


def format_metric(name: str, value: float | None) -> str:
    return METRICS[name].format(value)


def format_bytes(value: float) -> str:
    """Return bytes in decimal units, as file sizes are given: 12.3 MB is 12,300,000 bytes."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= scale * 0.9995:
            return f"{_format_three_digits(value / scale)} {unit}"
    return f"{value:.0f} B"


def format_mebibytes(count: int) -> str:
    """Return a cap that is set in MiB in both units: `64 MiB (67.1 MB)`."""
    return f"{count:,} MiB ({format_bytes(count * 2**20)})"


BYTE_UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_bytes(text: str) -> float | None:
    """Return the bytes that `120 MB`, `64KiB` or `0 B` mean; None where it is no valid amount."""
    amount = re.fullmatch(r"(\d+(?:\.\d+)?) ?((?:[kMG]i?)?B)", text.strip())
    return float(amount[1]) * BYTE_UNITS[amount[2]] if amount and amount[2] in BYTE_UNITS else None


def format_seconds(value: float) -> str:
    """Return seconds in the unit that suits them: 12.3 ms."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(value) >= scale * 0.9995:
            return f"{_format_three_digits(value / scale)} {unit}"
    return f"{_format_three_digits(value / 1e-9)} ns"


def _format_three_digits(value: float) -> str:
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{decimals}f}"


_TELLING = 4.0
"""Largest ratio of an interval's ends that still says something of a figure between them."""


def is_telling(low: float, high: float) -> bool:
    """Return True if an interval says something of the figure in it."""
    return low == high or (low > 0 and high / low <= _TELLING)


def join_range(low: str, high: str) -> str:
    """Return `1.2 ms to 1.4 ms`; one of the two where they read the same."""
    return low if low == high else f"{low} to {high}"
