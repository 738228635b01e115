"""Turn what the replay found into the raw samples of a memory trial. Core: standard library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from runner.allocations import Allocations
from runner.facts import PhaseFigures, StepSeries, TrialFacts
from runner.meters.tensor.replay import NoAllocations, Stretch, TraceResult
from runner.metrics import ALLOCATOR_PEAK, METRICS
from runner.records import Phase, TrialResult


def make_result(found: TraceResult | NoAllocations, facts: TrialFacts) -> TrialResult:
    """Return the result of a completed memory trial."""
    if isinstance(found, NoAllocations):
        names = [metric.name for metric in METRICS.values() if metric.source == "memory"]
        if facts.allocator_peak_bytes is not None:  # TensorFlow itself says so, without a trace
            names.remove(ALLOCATOR_PEAK)
        facts.unavailable = dict.fromkeys(names, found.reason)
        return TrialResult(facts=facts)
    facts.tensor_peak_bytes = found.total_bytes
    facts.tensor_retained_bytes = found.retained_bytes
    facts.course, facts.graph_ops, facts.unavailable = found.course, found.graph_ops, {}
    by_phase: dict[Phase, list[Stretch]] = {}
    for one in found.stretches:
        if one.span.phase not in (Phase.STEPS, Phase.COLLECTION):
            by_phase.setdefault(Phase(one.span.phase), []).append(one)
    return TrialResult(
        phases={phase: _sum_phase(its) for phase, its in by_phase.items()},
        steps=StepSeries(
            tensor_begin_bytes=tuple(one.begin_bytes for one in found.steps),
            tensor_live_bytes=tuple(one.end_bytes for one in found.steps),
            tensor_collected_bytes=found.collected_bytes,
            tensor_peak_bytes=tuple(one.peak_bytes - one.begin_bytes for one in found.steps),
            allocated_bytes=tuple(one.allocated_bytes for one in found.steps),
            allocations=tuple(one.allocations for one in found.steps),
        ),
        facts=facts,
        allocations=pick_allocations(found),
    )


def pick_allocations(found: TraceResult | NoAllocations | None) -> Allocations | None:
    """Return what the record keeps of the events, without what became phases and steps."""
    if not isinstance(found, TraceResult):
        return None
    return Allocations(**{each.name: getattr(found, each.name) for each in fields(Allocations)})


def find_last_peak(found: TraceResult | NoAllocations) -> int | None:
    """Return the peak of the last phase or step that there was: of a trial that ran out of memory,
    what was live when it did."""
    if isinstance(found, NoAllocations) or not found.stretches:
        return None
    return found.stretches[-1].peak_bytes


def _sum_phase(stretches: Sequence[Stretch]) -> PhaseFigures:
    """Return the figures of a phase; of one that was taken up again, of all its parts together."""
    return PhaseFigures(
        tensor_begin_bytes=stretches[0].begin_bytes,
        tensor_peak_bytes=max(one.peak_bytes for one in stretches),
        tensor_live_bytes=stretches[-1].end_bytes,
        allocated_bytes=sum(one.allocated_bytes for one in stretches),
        allocations=sum(one.allocations for one in stretches),
    )
