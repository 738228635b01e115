"""Run a timing trial: the default allocator, no profiler; seconds and host memory. Child side."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable
from functools import partial
from importlib.machinery import SourceFileLoader
from typing import Any

from runner.facts import ChildProcesses
from runner.meters.host.malloc import MallocLog
from runner.meters.host.resident import HostMemory, read_anonymous
from runner.meters.host.timing import TimingMeter
from runner.processes import process_tree
from runner.records import TrialResult
from runner.trial.phases import StepLimits, run_phases, take_phases
from runner.trial.setup import PreparedTrial, TrialSetup


def prepare(setup: TrialSetup) -> PreparedTrial:
    measure, execution, facts = setup.experiment.measure, setup.execution, setup.facts
    limits = StepLimits(measure.warmup_steps, measure.steps, measure.min_steps, measure.max_seconds)
    gc.collect()
    books = MallocLog()

    children: list[ChildProcesses] = []

    def observe() -> None:
        execution.observe()
        sizes = list(map(read_anonymous, process_tree.list_descendants(os.getpid())))
        children.append(ChildProcesses(len(sizes), sum(sizes)))

    half = (limits.most_steps / 2, limits.max_seconds / 2)
    meter = TimingMeter(
        HostMemory(setup.spec.index),
        books,
        limits.most_steps,
        clean_after=half if measure.reads_clean else (math.inf, math.inf),
    )
    _leave_out_compiling(meter.pause, meter.resume)

    def finish(steps: int) -> TrialResult:
        facts.update(setup.device.describe_use(exact=False))
        facts.update(execution.describe_graphs(steps - measure.warmup_steps))
        facts.warmup_steps = measure.warmup_steps
        if most := max(child.count for child in children):
            facts.child_processes, facts.children = most, (children[0], children[-1])
        facts.host_collected_bytes = meter.collected_bytes
        facts.unavailable, facts.malloc = meter.unavailable, books.to_facts()
        facts.clean = meter.clean.to_facts()
        return TrialResult(phases=meter.phases, steps=meter.steps, facts=facts)

    announced = setup.announce(meter, before_step=books.note)
    # Under a cap, what a leak takes beyond the steps that were asked for would end the trial.
    caps = (setup.experiment.device.memory_limit_mb, measure.host_limit_mb)
    is_capped = any(cap is not None for cap in caps)
    phases = take_phases(
        announced,
        limits,
        setup.device.settle,
        observe,
        needs_more=(lambda number, seconds: False) if is_capped else meter.needs_more,
    )
    return PreparedTrial(partial(run_phases, setup.build, phases), finish)


def _leave_out_compiling(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call these two around the compiling of each module from now on, so that it is no part of the
    host's peak: it takes some ten times what the module then holds, and whether a module is
    compiled is a matter of where bytecode can be kept. It says nothing about the user's step."""
    compile_source = SourceFileLoader.source_to_code

    def compile_apart(self: SourceFileLoader, data: Any, path: Any, **options: Any) -> Any:
        before()
        try:
            return compile_source(self, data, path, **options)
        finally:
            after()

    SourceFileLoader.source_to_code = compile_apart  # type: ignore[assignment,method-assign]
