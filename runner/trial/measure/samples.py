"""What the replay found, as the raw samples that a memory trial sends to the parent.

Core: standard library only.
"""

from __future__ import annotations

from typing import Any

from runner.records import Phase
from runner.trial.measure.replay import NoAllocations, Stretch, Traced

_TRACED = (
    "tensor_peak_bytes",
    "tensor_step_peak_bytes",
    "tensor_live_bytes",
    "tensor_retained_bytes",
    "tensor_growth_bytes_per_step",
    "allocated_bytes_per_step",
    "allocations_per_step",
    "first_call_tensor_peak_bytes",
)
"""The metrics that there are none of without a trace."""


def of_memory_trial(found: Traced | NoAllocations, facts: dict[str, Any]) -> dict[str, Any]:
    """The fields of a completed memory trial."""
    if isinstance(found, NoAllocations):
        own = () if "allocator_peak_bytes" in facts else ("allocator_peak_bytes",)
        return {"facts": {**facts, "unavailable": dict.fromkeys((*_TRACED, *own), found.reason)}}
    apart = (Phase.STEPS, Phase.COLLECTION)
    whole = [one for one in found.stretches if one.phase not in apart]
    return {
        "phases": {one.phase: _phase(one) for one in whole},
        "steps": {
            "tensor_begin_bytes": [one.live_begin_bytes for one in found.steps],
            "tensor_live_bytes": [one.live_end_bytes for one in found.steps],
            "tensor_collected_bytes": list(found.collected_bytes),
            "tensor_peak_bytes": [one.peak_above_begin_bytes for one in found.steps],
            "allocated_bytes": [one.allocated_bytes for one in found.steps],
            "allocations": [one.allocations for one in found.steps],
        },
        "facts": {
            **facts,
            "tensor_peak_bytes": found.total_bytes,
            "tensor_retained_bytes": found.retained_bytes,
            "course": found.course,
            "graph_ops": found.graph_ops,
            "unavailable": {},
        },
        "allocations": allocations(found),
    }


def allocations(found: Traced | NoAllocations) -> dict[str, Any] | None:
    """What was live at the peak, as the record keeps it; the stretches are its phases and steps."""
    if isinstance(found, NoAllocations):
        return None
    return found.to_json()


def most_live_at_last(found: Traced | NoAllocations) -> int | None:
    """In the last phase or step that there was: of a trial that ran out of memory, what was live
    when it did."""
    if isinstance(found, NoAllocations) or not found.stretches:
        return None
    return found.stretches[-1].peak_bytes


def _phase(stretch: Stretch) -> dict[str, float | None]:
    return {
        "tensor_begin_bytes": stretch.live_begin_bytes,
        "tensor_peak_bytes": stretch.peak_bytes,
        "tensor_live_bytes": stretch.live_end_bytes,
        "allocated_bytes": stretch.allocated_bytes,
        "allocations": stretch.allocations,
    }
