"""Run a memory trial: the allocator that counts every byte, under TensorFlow's profiler. Child
side."""

from __future__ import annotations

import contextlib
import math
import tempfile
from functools import partial
from pathlib import Path

from runner.meters.host.pipelines import PipelineMeter
from runner.meters.host.resident import HostMemory
from runner.meters.tensor import samples
from runner.meters.tensor.call_recorder import CallRecorder
from runner.meters.tensor.replay import NoAllocations, TraceResult
from runner.meters.tensor.requests import RequestCollector
from runner.meters.tensor.tracing import AllocationTracing
from runner.records import TrialResult
from runner.trial import devices
from runner.trial.phases import StepLimits, run_phases, take_phases
from runner.trial.setup import PreparedTrial, Salvage, TrialSetup


def prepare(setup: TrialSetup) -> PreparedTrial:
    spec, device, facts = setup.spec, setup.device, setup.facts
    requests = RequestCollector(device.allocator) if spec.with_requests else None
    recording = None
    if spec.with_lines:
        recorder = CallRecorder([setup.find_scenario_folder()], Path(tempfile.gettempdir()) / "xla")
        recorder.start()
        recording = recorder.recording
    tracing = AllocationTracing(
        device.allocator,
        also=requests.feed if requests else None,
        parts_build=setup.execution.name == "own",
        recording=recording,
    )
    steps = setup.experiment.measure.memory_steps
    pipelines = PipelineMeter()

    def observe() -> None:
        setup.execution.observe()
        if recording and recording.pipelines.are_used:
            pipelines.look()

    def salvage() -> Salvage:
        live = traced = None
        with contextlib.suppress(Exception):  # what was live then says why; but the error is first
            traced = tracing.finish()
            live = samples.find_last_peak(traced)
            facts.update(device.describe_use(exact=True))
        return Salvage(live, samples.pick_allocations(traced))

    def finish(steps: int) -> TrialResult:
        peak = device.read_allocator_peak()
        facts.update(device.describe_use(exact=True))
        facts.update(setup.execution.describe_graphs(steps))
        traced = tracing.finish()
        counted = isinstance(traced, TraceResult) and traced.checks and traced.checks.events
        if device.is_disarmed and not counted:
            traced = NoAllocations(devices.DISARMED)
        else:
            facts.allocator_peak_bytes = peak
        facts.process_peak_bytes = HostMemory().read().high_water  # with all that tracing takes
        facts.pipelines = pipelines.list_buffers()
        if requests is not None:
            facts.requests = requests.to_facts()
        return samples.make_result(traced, facts)

    tracing.start()
    phases = take_phases(
        setup.announce(tracing),
        StepLimits(warmup_steps=0, steps=steps, min_steps=steps, max_seconds=math.inf),
        device.settle,
        observe,
    )
    return PreparedTrial(partial(run_phases, setup.build, phases), finish, salvage)
