"""Say what a process holds of the kernel's and more of at each step, and settings under which it
keeps garbage. Core: standard library only."""

from __future__ import annotations

from collections.abc import Iterator

from runner.facts import CollectorState, HostFindings, OpenResource, ResourceKind
from runner.leak.holders import is_growing, rate_series

_LEAST_PER_STEP = 0.01
"""Of open things a step: fewer come and go with threads and files of libraries."""

_STAYS = {ResourceKind.FILE: ("stays open", "stay open"), ResourceKind.THREAD: ("stays", "stay")}


def describe_resources(held: HostFindings) -> Iterator[str]:
    """Yield a sentence for each kind of thing of which there are more and more, and for the
    collector where it is off."""
    for resource in held.resources:
        per_step = rate_series(resource.counts)
        if is_growing(resource.counts) and per_step >= _LEAST_PER_STEP:
            yield _describe_resource(resource, per_step)
    match held.collector:
        case CollectorState.SAVES_ALL:
            yield f"Python's collector keeps what it finds in gc.garbage: {held.collector}"
        case CollectorState():
            yield f"Python's collector is off, garbage in cycles stays: {held.collector}"


def _describe_resource(resource: OpenResource, per_step: float) -> str:
    amount = f"{per_step:.3g} {resource.kind}{'s' * (per_step != 1)}"
    latest = f", the last one {resource.latest}" if resource.latest else ""
    limit = ""
    if resource.limit is not None:
        steps = (resource.limit - resource.counts[-1]) / per_step
        limit = f"; the limit of {resource.limit:,} is reached after {steps:,.0f} more steps"
    stays = _STAYS[resource.kind][per_step != 1]
    return f"{amount} a step {stays}{latest}{limit}"
