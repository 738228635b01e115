"""From a run's trials to its metrics, with 95 % intervals. Standard library, NumPy and SciPy.

What is estimated, and how:

Memory (and counts) are nearly deterministic: the value is the maximum over trials, the interval
their range, where there are at least two.

Times and host memory are the median over processes. The process is the unit of evidence, so a
process counts once, by its own median over its steady steps. The interval is

    median ± t · s

with s the bootstrap's standard error of the median over processes (exact, so without random
numbers: Maritz and Jarrett 1978) and t Student's quantile for one degree of freedom less than there
are processes; on the logarithm for times. Why not something better known: a bootstrap's percentiles
of three processes never leave their range and cover 75 %; the interval of the mean covers 82 % of
20 skewed processes, because it is not about the median; the sign test's needs six processes. This
one covers 94 to 99 % for 2 to 20 processes that are normal, heavy-tailed, skewed or with one in
seven gone astray (`test_estimate`); only where processes fall into two equal camps, 83 to 94 %.

What counts as growth is `growth`'s to say.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.judging import growth
from runner.judging.growth import Growth
from runner.metrics import METRICS, Metric
from runner.records import Phase, Trial


@dataclass(frozen=True)
class Estimate:
    """As the record keeps them: every metric that applies, null with a reason where unknown."""

    metrics: dict[str, float | None] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)


def summarise(trials: Sequence[Trial], spec: Mapping[str, Any]) -> Estimate:
    """Every metric that applies to a run of these trials. Only completed trials give evidence."""
    estimate = Estimate()
    for metric in METRICS.values():
        name = metric.name
        if not _applies(trials, metric):
            continue
        values = samples(trials, name, spec)
        if values:
            estimate.metrics[name], interval = _combined(metric, values)
            if interval is not None:
                estimate.intervals[name] = interval
        else:
            estimate.metrics[name] = None
            estimate.unavailable[name] = _why_unknown(trials, metric, spec)
    return estimate


def samples(trials: Sequence[Trial], name: str, spec: Mapping[str, Any]) -> list[float]:
    """One value a process: what each completed trial says about the metric `name`."""
    metric = METRICS[name]
    evidence = _evidence(trials, metric)
    if name == "step_seconds":
        values = [_median(seconds) for seconds in map(steady_seconds, evidence)]
    elif name == "examples_per_second":
        seconds = samples(trials, "step_seconds", spec)
        return [spec["batch_size"] / value for value in seconds if value > 0]
    elif name in _GROWTH:
        return growth.over_processes(_judged(evidence, name), most=metric.source == "timing")
    else:
        values = [_READ[name](trial) for trial in evidence]
    return [value for value in values if value is not None]


def steady_seconds(trial: Trial) -> list[float]:
    """Seconds of each step of a timing trial, the warm-up left out."""
    return _steady(trial, "seconds")


# One process's word on a metric: where its raw samples say it, None where they don't.


def _phase(phase: Phase, figure: str) -> Callable[[Trial], float | None]:
    return lambda trial: trial.phases.get(phase, {}).get(figure)


def _fact(name: str) -> Callable[[Trial], float | None]:
    return lambda trial: trial.facts.get(name)


def _added_by_first_call(figure: str, before: str) -> Callable[[Trial], float | None]:
    """The first call's `figure` above what there was when it began, as the build left it."""

    def read(trial: Trial) -> float | None:
        reached = _phase(Phase.FIRST_CALL, figure)(trial)
        began = _phase(Phase.BUILD, before)(trial)
        return None if reached is None or began is None else reached - began

    return read


def _host_peak(trial: Trial) -> float | None:
    peaks = [
        _phase(phase, "host_peak_bytes")(trial)
        for phase in (Phase.BUILD, Phase.FIRST_CALL, Phase.STEPS)
    ]
    known = [peak for peak in peaks if peak is not None]
    return max(known) if known else None


def _steady(trial: Trial, figure: str) -> list[float]:
    return trial.steps.get(figure, [])[int(trial.facts.get("warmup_steps", 0)) :]


def _median_of_steps(figure: str) -> Callable[[Trial], float | None]:
    return lambda trial: _median(_steady(trial, figure))


def _last_live(trial: Trial) -> float | None:
    live = trial.steps.get("tensor_live_bytes", [])
    return live[-1] if live else None


def _most_in_a_step(trial: Trial) -> float | None:
    return max(_steady(trial, "tensor_peak_bytes"), default=None)


_GROWTH: dict[str, Callable[[Trial], Growth | None]] = {
    "tensor_growth_bytes_per_step": growth.of_tensors,
    "host_growth_bytes_per_step": growth.of_host,
}

_READ: dict[str, Callable[[Trial], float | None]] = {
    "tensor_peak_bytes": _fact("tensor_peak_bytes"),
    "tensor_step_peak_bytes": _most_in_a_step,
    "tensor_live_bytes": _last_live,
    "tensor_retained_bytes": _fact("tensor_retained_bytes"),
    "allocated_bytes_per_step": _median_of_steps("allocated_bytes"),
    "allocations_per_step": _median_of_steps("allocations"),
    "allocator_peak_bytes": _fact("allocator_peak_bytes"),
    "first_call_tensor_peak_bytes": _added_by_first_call("tensor_peak_bytes", "tensor_live_bytes"),
    "host_peak_bytes": _host_peak,
    "host_retained_bytes": _phase(Phase.RELEASE, "host_bytes"),
    "first_call_host_bytes": _added_by_first_call("host_bytes", "host_bytes"),
    "build_seconds": _phase(Phase.BUILD, "seconds"),
    "first_call_seconds": _phase(Phase.FIRST_CALL, "seconds"),
    "graph_traces": _fact("graph_traces"),
    "graph_nodes": _fact("graph_nodes"),
    "graph_nodes_per_step": _fact("graph_nodes_per_step"),
}


def growth_at_most(trials: Sequence[Trial], name: str) -> float | None:
    """Where a growth is null: what it isn't beyond, if that is known."""
    completed = _evidence(trials, METRICS[name]) if name in _GROWTH else []
    return growth.at_most(_judged(completed, name))


def _judged(trials: Sequence[Trial], name: str) -> list[Growth]:
    return [found for found in map(_GROWTH[name], trials) if found is not None]


# From processes to one value.


def _evidence(trials: Sequence[Trial], metric: Metric) -> list[Trial]:
    """The completed trials that a metric rests on. Where either kind can tell, memory trials: how
    many steps they make is fixed, and with it how often they trace."""
    completed = [trial for trial in trials if trial.outcome.completed]
    if metric.source != "either":
        return [trial for trial in completed if trial.kind == metric.source]
    telling = [trial for trial in completed if trial.facts.get(metric.name) is not None]
    return [trial for trial in telling if trial.kind == "memory"] or telling


def _applies(trials: Sequence[Trial], metric: Metric) -> bool:
    """Graph figures apply where some trial speaks of them, examples where the scenario asked how
    many there are, everything else everywhere."""
    if metric.name == "examples_per_second":
        return any(trial.facts.get("batched") for trial in trials)
    return metric.source != "either" or any(
        metric.name in trial.facts or metric.name in trial.facts.get("unavailable", {})
        for trial in trials
    )


def _combined(metric: Metric, values: list[float]) -> tuple[float, tuple[float, float] | None]:
    interval: tuple[float, float] | None = None
    if metric.source != "timing":
        value = max(values)
        interval = (min(values), value) if len(values) >= 2 else None
    elif metric.is_time:
        value = statistics.median(values)
        if len(values) >= 2 and min(values) > 0:
            low, high = median_interval([math.log(value) for value in values])
            interval = (math.exp(low), math.exp(high))
    else:
        # Growth exists where most processes show it, so its median may not be a mean of two.
        is_growth = metric.name == "host_growth_bytes_per_step"
        value = statistics.median_low(values) if is_growth else statistics.median(values)
        if len(values) >= 2:
            low, high = median_interval(values)
            # Resident memory is above the start, or a little below; no interval says more.
            interval = (max(low, min(0.0, *values)), high)
    if metric.is_time:
        return value, interval
    return round(value), interval and (math.floor(interval[0]), math.ceil(interval[1]))


def get_ready() -> None:
    """Import what the first record would wait for, a fifth of a second."""
    import scipy.special  # noqa: F401


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Around the median of at least two processes; see the top of this module."""
    center = statistics.median(values)
    half = student(len(values) - 1) * standard_error(values)
    return center - half, center + half


def standard_error(values: Sequence[float]) -> float:
    """Of the median of `values`: its bootstrap distribution's spread, in closed form."""
    import numpy as np
    from scipy.special import betainc

    count = len(values)
    if max(values) == min(values):
        return 0.0
    ordered = np.sort(np.asarray(values, dtype=float))
    ordered -= ordered[count // 2]  # large numbers that differ little lose no digits
    half = (count + 1) / 2
    weights = np.diff(betainc(half, half, np.arange(count + 1) / count))
    mean = ordered @ weights
    return math.sqrt(float(weights @ (ordered - mean) ** 2))


def student(degrees: float, confidence: float = 0.95) -> float:
    """Student's t: as many standard errors to either side hold the truth with `confidence`."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


# Why a metric is null.


def _why_unknown(trials: Sequence[Trial], metric: Metric, spec: Mapping[str, Any]) -> str:
    """The reason, as the record's `unavailable` gives it."""
    kinds = ("memory", "timing") if metric.source == "either" else (metric.source,)
    asked = [trial for trial in trials if trial.kind in kinds]
    completed = [trial for trial in asked if trial.outcome.completed]
    source = " or ".join(kinds)
    if not completed:
        ended = next((trial for trial in [*asked, *trials] if not trial.outcome.completed), None)
        if ended is None:
            return f"no {source} trial was run"
        outcome = ended.outcome
        where = f" in {outcome.phase}" if outcome.phase else ""
        why = f": {outcome.reason.strip().splitlines()[0]}" if outcome.reason else ""
        return (
            f"no {source} trial completed; a {ended.kind} trial ended {outcome.status}{where}{why}"
        )
    for trial in completed:
        reason = trial.facts.get("unavailable", {}).get(metric.name)
        if reason:
            return str(reason)
    if metric.name in _GROWTH and (found := _judged(completed, metric.name)):
        return _growth_unknown(completed, metric, found, spec)
    if metric.name in ("step_seconds", "examples_per_second"):
        return "no step was left after the warm-up"
    return f"the {source} trials' samples don't hold it"


def _growth_unknown(
    trials: Sequence[Trial], metric: Metric, found: Sequence[Growth], spec: Mapping[str, Any]
) -> str:
    needed = max(one.steps_needed or 0 for one in found)
    bound = growth.at_most(found)
    most = f"at most {metric.readable(bound)}: " if bound is not None else ""
    if metric.source == "memory":
        steps = max(len(trial.steps["tensor_live_bytes"]) for trial in trials)
        return (
            f"{most}they rose in {steps} steps, but perhaps for the last time; "
            f"say measure.memory_steps={needed}"
        )
    steps, seconds = max(
        (len(trial.steps.get("host_bytes", [])), sum(trial.steps.get("seconds", [])))
        for trial in trials
    )
    if growth.enough_for_host(steps, seconds):
        limit = f" measure.max_seconds={math.ceil(1.2 * seconds * needed / steps)}"
        return f"{most}{steps} steps can't tell that from none; say measure.steps={needed}{limit}"
    remedy = (
        "measure=standard"
        if spec.get("measure", {}).get("name") == "quick"
        else f"measure.steps={growth.HOST_STEPS}, or measure.max_seconds={growth.HOST_SECONDS:g} "
        f"with measure.min_steps={growth.HOST_LEAST_STEPS}"
    )
    return (
        f"{steps} steps in {seconds:.2g} s are too few to see slow growth: it takes "
        f"{growth.HOST_STEPS}, or {growth.HOST_SECONDS:g} s of them and "
        f"{growth.HOST_LEAST_STEPS} at least; say {remedy}"
    )
