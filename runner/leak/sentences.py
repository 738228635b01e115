"""Say what a leak hunt found, in a sentence and in notes. Core: standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from runner.analysis.filling import describe_filling
from runner.facts import PipelineBuffer
from runner.leak.findings import Holder, Leak, LeakEvidence, LeakVerdict, Reason
from runner.leak.holders import count_needed_steps
from runner.leak.open_resources import describe_resources
from runner.metrics import (
    HOST_GROWTH,
    STEP_SECONDS,
    format_bytes,
    format_mebibytes,
    is_telling,
    join_range,
)
from runner.records import Record

_TELLING_PART = 0.05
"""Share of a growth from which malloc's part of it is said."""


def write_sentence(record: Record, leak: Leak, evidence: LeakEvidence, reason: Reason) -> str:
    """Return the verdict as a person reads it."""
    host, stopped = evidence.host, evidence.stopped
    match reason:
        case Reason.HELD:
            known = host or evidence.explained or evidence.tensor or 0
            total = known + evidence.children_growth
            whom = list(map(_describe_part, leak.main_holders))
            more = f", and {len(whom) - 2} more" if len(whom) > 2 else ""
            parts = [f"{', '.join(whom[:2])}{more}"] if whom else []
            if abs(evidence.kept_by_malloc) > _TELLING_PART * total:
                part = format_bytes(abs(evidence.kept_by_malloc))
                is_kept = evidence.kept_by_malloc > 0
                way = (
                    "are free but kept by malloc" if is_kept else "came out of malloc's free memory"
                )
                parts.append(f"{part} {way}")
            if evidence.children_growth:
                parts.append(f"about {format_bytes(evidence.children_growth)} in child processes")
            by_whom = f": {'; '.join(parts)}" if parts else ""
            scale = ""
            if host is None:  # what was found is a part of what nobody knows
                scale = " at least"
            elif total > 0 and _forecast_end(record, total)[1]:
                scale = ", too little to act on"
            return f"grows {format_bytes(total)} a step{scale}{by_whom}"
        case Reason.LEVELS_OFF:
            first = leak.holders[0]
            return (
                f"rises and stops: {_describe_holder(first)[3:]} at {first.where} rose while it "
                "was traced, and not over all the steps that were timed"
            )
        case Reason.BUFFER_IS_FULL:
            size = stopped[0].bytes
            what = f"{format_bytes(size)}, {stopped[0].what}"
            stages = (stage for stage in _list_pipelines(record) if not stage.is_filling)
            stage = next(
                (stage for stage in stages if abs(stage.bytes[-1] - size) < 0.5 * size), None
            )
            what = _describe_stage(stage) if stage else what
            return f"rises and stops: a buffer that fills ({what}, at {stopped[0].where})"
        case Reason.BUFFER_FILLS:
            assert evidence.filling is not None
            return f"rises to a known end: {describe_filling(evidence.filling)}"
        case Reason.KEPT_BY_MALLOC:
            return (
                f"does not grow: what you saw is malloc's: {format_bytes(evidence.kept_by_malloc)} "
                "a step are free but kept, and what is in use stays the same"
            )
        case Reason.GARBAGE:
            return (
                "does not grow: garbage waits for Python's collector, and "
                f"{format_bytes(evidence.garbage_bytes)} came back when it ran"
            )
        case Reason.NOTHING_GROWS:
            return "does not grow"
        case Reason.NOT_MEASURED:
            why = record.unavailable.get("host_growth_bytes_per_step", "not measured")
            return f"unclear: {why}"
        case Reason.EXPLANATION_FAILED:
            return (
                "unclear: no growth was seen while it was timed, but the trial that looks for what "
                f"is held {evidence.failed_explanation}"
            )
        case Reason.TOO_FEW_STEPS:
            first = next(iter((*leak.holders, *evidence.unsure)))
            steps = count_needed_steps(first)
            held = next(trial.facts.held for trial in record.trials if trial.facts.held)
            seconds = math.ceil(2 * steps * held.traced_seconds_per_step)
            return (
                f"unclear: {format_bytes(first.bytes_per_step)} a step "
                f"{_describe_holder(first)} at {first.where} rose in {evidence.traced_steps} "
                f"traced steps; to say that it goes on takes {steps}: say "
                f"measure.max_seconds={seconds}"
            )
        case Reason.CHILDREN_GROW:
            return f"unclear: {_describe_children(evidence)}; the process itself does not grow"
        case Reason.TOO_RARE:
            first = evidence.rare[0]
            times = "once" if first.events == 1 else f"{first.events} times"
            return (
                f"unclear: resident memory grows {format_bytes(host or 0)} a step, and what stayed "
                f"came too rarely to say that it is that: "
                f"{format_bytes(first.bytes_per_step * first.every_steps)} "
                f"{_describe_holder(first)} at {first.where}, {times} in {evidence.traced_steps} "
                "traced steps"
            )
        case Reason.PAST_THE_TRACER:
            return (
                f"unclear: resident memory grows {format_bytes(host or 0)} a step and is in use, "
                "Python's collector did not give it back, and nothing that stays was found: it was "
                "allocated by code that the tracer cannot see (for example ctypes)"
            )
        case Reason.NOT_FOUND:
            return (
                f"unclear: resident memory grows {format_bytes(host or 0)} a step, and nothing "
                "that stays was found: run it with more steps (measure=standard), or it was taken "
                "past the tracer"
            )


def _describe_part(holder: Holder) -> str:
    size = f"{format_bytes(holder.bytes_per_step)} {_describe_holder(holder)} at {holder.where}"
    if not holder.events:
        return size
    once = holder.bytes_per_step * holder.every_steps
    return f"{size} ({format_bytes(once)}, {holder.how_often})"


def _describe_holder(holder: Holder) -> str:
    if holder.kind == "native":  # the table names the op and the function, too
        what = holder.what.partition(" (")[0].partition(", op ")[0]
        return f"in C++{what.removeprefix('C++ memory')}" if "C++" in what else f"of {what}"
    what = holder.what.partition("; ")[0]  # why it is traced again is the table's, too
    return f"in {what}" if holder.kind == "graph" else f"of {what}"


def describe_steps(record: Record) -> str:
    """Return how many steps were seen, by kind of trial."""
    timed = max((trial.steps.host_steps for trial in record.trials), default=0)
    traced = max((trial.facts.held.steps for trial in record.trials if trial.facts.held), default=0)
    counts = {"timed": timed, "traced": traced}
    return " and ".join(f"{count} {how}" for how, count in counts.items() if count)


def _describe_children(evidence: LeakEvidence) -> str:
    assert evidence.children is not None
    early, late = evidence.children
    processes = "process" if late.count == 1 else "processes"
    if not evidence.are_children_growing:
        return f"{late.count} child {processes} took no more while steps were timed"
    sizes = f"from {format_bytes(early.bytes)} to {format_bytes(late.bytes)} resident"
    rate = f"about {format_bytes(evidence.children_growth)} a step, by two looks"
    if late.count > early.count:
        return f"child processes rose from {early.count} to {late.count}, {sizes}: {rate}"
    return f"{late.count} child {processes} took more, {sizes}: {rate}"


def list_notes(record: Record, leak: Leak, evidence: LeakEvidence) -> Iterator[str]:
    """Yield what belongs to no holder: when memory will be full, what could not be had."""
    for holder in evidence.little:
        amount = format_bytes(holder.bytes_per_step)
        yield f"{amount} a step stay at {holder.where}, {holder.what}: too little to call it a leak"
    if evidence.children and leak.verdict is not LeakVerdict.UNCLEAR:
        yield _describe_children(evidence)
    if leak.verdict is LeakVerdict.GROWS:
        yield from _list_forecasts(record, leak, evidence.children_growth)
    for trial in record.trials:
        if trial.facts.held:
            yield from describe_resources(trial.facts.held)
    if evidence.filling and leak.verdict is not LeakVerdict.FILLS:
        yield describe_filling(evidence.filling)
    if stages := _list_pipelines(record):
        yield f"tf.data holds {'; '.join(map(_describe_stage, stages))}"
    for trial in record.trials:
        if not trial.outcome.completed:
            lines = (trial.outcome.reason or "").strip().splitlines() or [""]
            yield f"the {trial.kind} trial ended {trial.outcome.status}: {lines[0]}"


def _list_forecasts(record: Record, leak: Leak, of_children: float) -> Iterator[str]:
    """Yield when memory will be full, and of which growth that is known where that is a part."""
    host, part = leak.host_growth_bytes_per_step, leak.explained_bytes_per_step
    growth = (host or part or 0) + of_children
    if growth <= 0:
        return
    forecast = _forecast_end(record, growth)[0]
    if host is not None:
        yield forecast
        return
    bound = leak.host_bound_bytes_per_step
    most = "" if bound is None else f": at most {format_bytes(bound)} a step"
    yield f"the growth of resident memory is not known{most}"
    yield f"by what is known of it, {forecast.partition('; too slow')[0]}, or sooner"


_HARMLESS_SECONDS = 30 * 86400.0
_HARMLESS_STEPS, _SOON_SECONDS = 1e8, 3600.0
"""Growth that fills memory later than that is nothing to act on: by the clock, or by steps, but
for those so short that it is full within the hour."""


def _forecast_end(record: Record, growth: float) -> tuple[str, bool]:
    """Return when memory will be full at this growth, and if that is too late to act on."""
    limit_mb = record.spec.measure.host_limit_mb
    memory = limit_mb * 2**20 if limit_mb else record.environment.memory_bytes
    free = max(0, memory - (record.metrics.get("host_peak_bytes") or 0))
    steps = free / growth
    fewest, most = _find_ends(record, HOST_GROWTH, growth)
    step_range = free / most, free / fewest
    is_harmless, time = steps > _HARMLESS_STEPS, ""
    if (seconds := record.metrics.get(STEP_SECONDS)) is not None:
        left = steps * seconds
        is_harmless = left > _HARMLESS_SECONDS or (is_harmless and left > _SOON_SECONDS)
        ends = zip(step_range, _find_ends(record, STEP_SECONDS, seconds), strict=True)
        soonest, latest = (count * end for count, end in ends)
        if seconds and is_telling(soonest, latest):
            spelled = join_range(_spell_time(soonest), _spell_time(latest))
            time = f", {spelled} at {seconds * 1e3:.3g} ms a step"
    advice = "; too slow to act on, unless it runs that long" if is_harmless else ""
    if not is_telling(*step_range):
        step_range = steps, steps
    counts = join_range(*(f"{float(f'{count:.3g}'):,.0f}" for count in step_range))
    whole = format_mebibytes(limit_mb) if limit_mb else format_bytes(memory)
    return f"{whole} of memory are full after {counts} steps{time}{advice}", is_harmless


def _find_ends(record: Record, name: str, value: float) -> tuple[float, float]:
    """Return the interval of a figure; its value twice where it has none, or one that reaches to
    nothing."""
    low, high = record.intervals.get(name, (value, value))
    return (low, high) if 0 < low <= value <= high else (value, value)


def _spell_time(seconds: float) -> str:
    for scale, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= scale * 1.5:
            return f"{seconds / scale:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def _list_pipelines(record: Record) -> Sequence[PipelineBuffer]:
    """Return the buffers that a host trial found, a pipeline's from its source on."""
    return next((trial.facts.held.pipelines for trial in record.trials if trial.facts.held), ())


def _describe_stage(stage: PipelineBuffer) -> str:
    count = stage.elements[-1]
    size_of_one = f" of {format_bytes(stage.bytes[-1] / count)}" if count else ""
    size = ""
    if stage.buffer is not None:
        auto = stage.chosen_by_autotune
        size = f", AUTOTUNE chose {stage.buffer}" if auto else f", {stage.buffer} at most"
    rises = ", and rises" if stage.is_filling else ""
    return f"{stage.stage}, {count:,} element{'s' * (count != 1)}{size_of_one}{size}{rises}"
