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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runner.analysis import growth
from runner.analysis.filling import find_filling, leave_out
from runner.analysis.growth import ProcessGrowth
from runner.config import Spec
from runner.facts import PhaseFigures
from runner.metrics import HOST_GROWTH, METRICS, TENSOR_GROWTH, Metric
from runner.records import Phase, Trial

Figure = Callable[[PhaseFigures], float | None]


@dataclass(frozen=True)
class Estimate:
    """As the record keeps them: every metric that applies, null with a reason where unknown."""

    metrics: dict[str, float | None] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)


def estimate_metrics(trials: Sequence[Trial], spec: Spec) -> Estimate:
    """Return every metric that applies to a run of these trials; only completed ones count."""
    estimate = Estimate()
    for metric in METRICS.values():
        name = metric.name
        if not _is_applicable(trials, metric):
            continue
        values = list_samples(trials, name, spec)
        if values:
            estimate.metrics[name], interval = _combine(metric, values)
            if interval is not None:
                estimate.intervals[name] = interval
        else:
            estimate.metrics[name] = None
            estimate.unavailable[name] = _explain_unknown(trials, metric, spec)
    return estimate


def list_samples(trials: Sequence[Trial], name: str, spec: Spec) -> list[float]:
    """Return what each completed trial says about the metric `name`: a value a process."""
    metric = METRICS[name]
    evidence = _list_evidence(trials, metric)
    if name == "step_seconds":
        values = [_find_median(seconds) for seconds in map(list_steady_seconds, evidence)]
    elif name == "examples_per_second":
        seconds = list_samples(trials, "step_seconds", spec)
        return [spec.batch_size / value for value in seconds if value > 0]
    elif name in _GROWTH:
        return growth.list_rates(_judge_growth(trials, name), most=metric.source == "timing")
    else:
        values = [_READ[name](trial) for trial in evidence if not _hides_begin(trial, name)]
    return [value for value in values if value is not None]


def _hides_begin(trial: Trial, name: str) -> bool:
    """Return True if the metric needs the moment of the first step's begin, which was not seen."""
    program = trial.facts.program
    return program is not None and program.begin_unseen and name in _NEED_FIRST_BEGIN


def list_steady_seconds(trial: Trial) -> Sequence[float]:
    """Return the seconds of each step of a timing trial, without the warm-up."""
    return _skip_warmup(trial, trial.steps.seconds)


# One process's word on a metric: where its raw samples say it, None where they don't.


def _read_added_by_first_call(reached: Figure, before: Figure) -> Callable[[Trial], float | None]:
    """Return a reader of what the first call reached above what the build left."""

    def read(trial: Trial) -> float | None:
        high = reached(trial.figures(Phase.FIRST_CALL))
        low = before(trial.figures(Phase.BUILD))
        return None if high is None or low is None else high - low

    return read


def _read_host_peak(trial: Trial) -> float | None:
    phases = (Phase.BUILD, Phase.FIRST_CALL, Phase.STEPS)
    peaks = [trial.figures(phase).host_peak_bytes for phase in phases]
    return max((peak for peak in peaks if peak is not None), default=None)


def _skip_warmup(trial: Trial, series: Sequence[float]) -> Sequence[float]:
    return series[trial.facts.warmup_steps or 0 :]


_GROWTH: dict[str, Callable[[Trial], ProcessGrowth | None]] = {
    TENSOR_GROWTH: growth.judge_tensors,
    HOST_GROWTH: growth.judge_host,
}

_NEED_FIRST_BEGIN = (
    "build_seconds",
    "first_call_seconds",
    "first_call_host_bytes",
    "first_call_tensor_peak_bytes",
)

_READ: dict[str, Callable[[Trial], float | None]] = {
    "tensor_peak_bytes": lambda trial: trial.facts.tensor_peak_bytes,
    "tensor_step_peak_bytes": lambda trial: max(
        _skip_warmup(trial, trial.steps.tensor_peak_bytes), default=None
    ),
    "tensor_live_bytes": lambda trial: next(reversed(trial.steps.tensor_live_bytes), None),
    "tensor_retained_bytes": lambda trial: trial.facts.tensor_retained_bytes,
    "allocated_bytes_per_step": lambda trial: _find_median(
        _skip_warmup(trial, trial.steps.allocated_bytes)
    ),
    "allocations_per_step": lambda trial: _find_median(
        _skip_warmup(trial, trial.steps.allocations)
    ),
    "allocator_peak_bytes": lambda trial: trial.facts.allocator_peak_bytes,
    "first_call_tensor_peak_bytes": _read_added_by_first_call(
        lambda figures: figures.tensor_peak_bytes, lambda figures: figures.tensor_live_bytes
    ),
    "host_peak_bytes": _read_host_peak,
    "host_retained_bytes": lambda trial: trial.figures(Phase.RELEASE).host_bytes,
    "first_call_host_bytes": _read_added_by_first_call(
        lambda figures: figures.host_bytes, lambda figures: figures.host_bytes
    ),
    "build_seconds": lambda trial: trial.figures(Phase.BUILD).seconds,
    "first_call_seconds": lambda trial: trial.figures(Phase.FIRST_CALL).seconds,
    "graph_traces": lambda trial: trial.facts.graph_traces,
    "graph_nodes": lambda trial: trial.facts.graph_nodes,
    "graph_nodes_per_step": lambda trial: trial.facts.graph_nodes_per_step,
}


def find_growth_bound(trials: Sequence[Trial], name: str) -> float | None:
    """Return the upper bound of a growth that is null or 0, if one is known."""
    return growth.find_bound(_judge_growth(trials, name)) if name in _GROWTH else None


def _judge_growth(trials: Sequence[Trial], name: str) -> list[ProcessGrowth]:
    """Return what each process says of a growth; of tensors as far as the host bears it out."""
    evidence = _list_evidence(trials, METRICS[name])
    found = [each for each in map(_GROWTH[name], evidence) if each is not None]
    if (filling := find_filling(trials)) and name == TENSOR_GROWTH:
        most, perhaps = filling.tensor_bytes_per_step, filling.ahead_bytes_per_step
        found = [leave_out(each, most, perhaps) for each in found]
    elif filling:
        steps = max((trial.steps.host_steps for trial in evidence), default=0)
        found = [leave_out(each, filling.compute_host_rate(steps)) for each in found]
    if name != TENSOR_GROWTH or any(
        (each.facts.device or "").startswith("GPU") for each in evidence
    ):
        return found
    on_host = _judge_growth(trials, HOST_GROWTH)
    return [growth.check_against_host(each, on_host) for each in found]


# From processes to one value.


def _list_evidence(trials: Sequence[Trial], metric: Metric) -> list[Trial]:
    """Return the completed trials that a metric rests on.

    Where either kind can tell, these are memory trials: how many steps they make is fixed, and with
    it how often they trace.
    """
    completed = [trial for trial in trials if trial.outcome.completed]
    if metric.source != "either":
        return [trial for trial in completed if trial.kind == metric.source]
    telling = [trial for trial in completed if _READ[metric.name](trial) is not None]
    return [trial for trial in telling if trial.kind == "memory"] or telling


def _is_applicable(trials: Sequence[Trial], metric: Metric) -> bool:
    """Return True if some trial speaks of a graph's figure, or the scenario asked how many examples
    there are; anything else applies everywhere."""
    if metric.name == "examples_per_second":
        return any(trial.facts.batched for trial in trials)
    return metric.source != "either" or any(
        _READ[metric.name](trial) is not None or metric.name in (trial.facts.unavailable or {})
        for trial in trials
    )


def _combine(metric: Metric, values: list[float]) -> tuple[float, tuple[float, float] | None]:
    interval: tuple[float, float] | None = None
    if metric.source != "timing":
        value = max(values)
        interval = (min(values), value) if len(values) >= 2 else None
    elif metric.is_time:
        value = statistics.median(values)
        if len(values) >= 2 and min(values) > 0:
            low, high = estimate_median_interval([math.log(value) for value in values])
            interval = (math.exp(low), math.exp(high))
    else:
        # Growth exists where most processes show it, so its median may not be a mean of two.
        value = statistics.median_low(values) if metric.is_growth else statistics.median(values)
        if len(values) >= 2:
            low, high = estimate_median_interval(values)
            # Resident memory is above the start, or a little below; no interval says more.
            interval = (max(low, min(0.0, *values)), high)
    if metric.is_time:
        return value, interval
    return round(value), interval and (math.floor(interval[0]), math.ceil(interval[1]))


def preload_scipy() -> None:
    """Import what the first record would wait for, a fifth of a second."""
    import scipy.special  # noqa: F401


def estimate_median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval around the median of two processes or more: see the top of the module."""
    center = statistics.median(values)
    half = compute_student_t(len(values) - 1) * estimate_median_error(values)
    return center - half, center + half


def estimate_median_error(values: Sequence[float]) -> float:
    """Return the standard error of the median: its bootstrap's spread, in closed form."""
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


def compute_student_t(degrees: float, confidence: float = 0.95) -> float:
    """Return how many standard errors to either side hold the truth with `confidence`."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))


def _find_median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


# Why a metric is null.


def _explain_unknown(trials: Sequence[Trial], metric: Metric, spec: Spec) -> str:
    """Return why a metric is null, as the record's `unavailable` gives it."""
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
        if reason := (trial.facts.unavailable or {}).get(metric.name):
            return reason
    for trial in completed:
        if _hides_begin(trial, metric.name):
            return "where the first step begins was not seen; say scenario.step=MODULE:FUNCTION"
        if (program := trial.facts.program) and program.why_unknown:
            return program.why_unknown
    if metric.name in _GROWTH and (found := _judge_growth(trials, metric.name)):
        return _explain_unknown_growth(completed, metric, found, spec)
    if metric.name in ("step_seconds", "examples_per_second"):
        return "no step was left after the warm-up"
    return f"the {source} trials' samples don't hold it"


def _explain_unknown_growth(
    trials: Sequence[Trial], metric: Metric, found: Sequence[ProcessGrowth], spec: Spec
) -> str:
    needed = max(one.steps_needed or 0 for one in found)
    bound = growth.find_bound(found)
    most = f"at most {metric.format(bound)}: " if bound is not None else ""
    if metric.source == "memory":
        steps = max(len(trial.steps.tensor_live_bytes) for trial in trials)
        return (
            f"{most}they rose in {steps} steps, but perhaps for the last time; "
            f"say measure.memory_steps={needed}"
        )
    steps, seconds = max((trial.steps.host_steps, trial.steps.host_seconds) for trial in trials)
    if growth.is_enough_for_host(steps, seconds):
        if steps > spec.measure.warmup_steps + spec.measure.steps:  # until the time was used up
            seconds = max(seconds, spec.measure.max_seconds)
        limit = f" measure.max_seconds={math.ceil(1.2 * seconds * needed / steps)}"
        limit = limit if seconds > 0 else ""  # the clock did not go forward
        few = "steps are too few to tell this growth from zero"
        return f"{most}{steps} {few}; say measure.steps={needed}{limit}"
    remedy = (
        "measure=standard"
        if spec.measure.name == "quick"
        else f"measure.steps={growth.HOST_STEPS}, or measure.max_seconds={growth.HOST_SECONDS:g} "
        f"with measure.min_steps={growth.HOST_LEAST_STEPS}"
    )
    return (
        f"{steps} steps in {seconds:.2g} s are too few to see slow growth: it takes "
        f"{growth.HOST_STEPS}, or {growth.HOST_SECONDS:g} s of them and "
        f"{growth.HOST_LEAST_STEPS} at least; say {remedy}"
    )
