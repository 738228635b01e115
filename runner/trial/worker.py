"""Child side: one trial, from setting the device to sending the result.

The child says on a pipe which phase it enters, so that the parent knows where it was if it ends
badly, and last the result as JSON.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import math
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from greenlet import greenlet

from runner import code
from runner.errors import RunnerError
from runner.machine import lifeline
from runner.metrics import readable_bytes
from runner.plan import TRACER_MB, Assignment
from runner.records import Phase, Status
from runner.scenario import Function
from runner.trial import failure, owners, received, shortage
from runner.trial.measure.phases import Limits, Meter, go_through

T = TypeVar("T")

CANNOT_SEND = 86
"""Exit code of a child whose trial ended but whose result could not be sent."""


@dataclass
class Desk:
    """The `Bench` that a scenario builds on."""

    seed: int
    execution: str
    note: str | None
    sent: Callable[[], Any] | None
    _batch_size: int
    _compile: Any
    _facts: dict[str, Any]

    @property
    def batch_size(self) -> int:
        """A scenario that never asks has no examples to count."""
        self._facts["batched"] = True
        return self._batch_size

    def compile(self, function: Function, *, reduce_retracing: bool = False) -> Function:
        compiled: Function = self._compile(function, reduce_retracing=reduce_retracing)
        return compiled


class _Announcing:
    """A meter that says which phase begins, does what is to be done between two steps, then lets
    the real one read."""

    def __init__(
        self, meter: Meter, pipe: Connection, between: Callable[[int], object] = lambda _: None
    ) -> None:
        self._meter = meter
        self._pipe = pipe
        self._between = between
        self._phase: Phase | None = None

    def begin(self, phase: Phase, step: int) -> None:
        if phase not in (self._phase, Phase.COLLECTION):  # a moment between two, for nobody outside
            self._phase = phase
            _say(self._pipe, phase=phase.value)
        if phase is Phase.STEPS:
            self._between(step)
        if phase is Phase.COLLECTION:
            _lift_host_limit()  # the steps are over, and finding out what they kept takes memory
        self._meter.begin(phase, step)

    def end(self, phase: Phase, step: int) -> None:
        self._meter.end(phase, step)


def main(
    assignment: Assignment,
    former: Collection[int],
    pipe: Connection,
    output: Connection,
    scratch: str,
) -> None:
    """The child's whole life. Ends by `os._exit`: nothing of the user's runs after the result.
    `former` children have sent theirs, and may not have ended."""
    os.setsid()  # the terminal's Ctrl-C is the parent's affair; and the whole group can be ended
    lifeline.die_with_parent()
    lifeline.adopt_orphans()  # so that what outlives it is known to be its own
    _let_go_of_the_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    output.close()
    tempfile.tempdir = os.environ["TMPDIR"] = scratch  # the parent removes it, whatever happens
    facts: dict[str, Any] = {}
    try:
        lifeline.wait_for_ends(former)  # what they held is there again, and their cores are free
        result = _trial(assignment, pipe, facts)
    except BaseException as error:
        result = _told(error, assignment, facts)
    with contextlib.suppress(Exception):  # the user's code may have put anything among the modules
        sent = assignment.experiment.sent
        if files := code.files_of([*owners.loaded_of_users(), *(sent.files if sent else ())]):
            result.get("facts", {})["code"] = files
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):  # the user's code may have put anything in its place
            stream.flush()  # type: ignore[union-attr]
    result["is_alone"] = not any(lifeline.children(os.getpid()))
    try:
        _say(pipe, result=result)
    except BaseException:
        traceback.print_exc()
        os._exit(CANNOT_SEND)
    with contextlib.suppress(OSError):  # the output ends now, not when memory has been left
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
    os._exit(0)


def _let_go_of_the_parent() -> None:
    """Close what a child inherits of multiprocessing's: the parent's tracker of shared resources,
    which has the user's terminal or pipe open, would live as long as whoever holds these."""
    for owner, name in (
        (forkserver._forkserver, "_forkserver_alive_fd"),
        (resource_tracker._resource_tracker, "_fd"),
    ):
        descriptor = getattr(owner, name, None)
        if isinstance(descriptor, int):
            setattr(owner, name, None)
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _say(pipe: Connection, **message: Any) -> None:
    """A line of JSON: the parent takes what is there, and never waits for the rest of a line."""
    with open(pipe.fileno(), "wb", closefd=False) as stream:
        stream.write(json.dumps(message, allow_nan=False).encode() + b"\n")


def _trial(assignment: Assignment, pipe: Connection, facts: dict[str, Any]) -> dict[str, Any]:
    """The trial's result; `facts` takes what is known of it however it ends."""
    from runner.trial import warm

    if warm.problem:
        raise RunnerError(f"TensorFlow could not be loaded.\n{warm.problem}")
    _limit_host(assignment)
    trial = {"timing": _time, "memory": _trace, "host": _hold, "look": _look}[assignment.kind]
    return trial(assignment, pipe, facts)


def _limit_host(assignment: Assignment) -> None:
    limit_mb = assignment.host_limit_mb
    if limit_mb is None:
        return
    with open("/proc/self/status") as status:  # noqa: PTH123
        data = next(line for line in status if line.startswith("VmData:"))
    limit = int(data.split()[1]) * 1024 + limit_mb * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _lift_host_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _told(
    error: BaseException,
    assignment: Assignment,
    facts: dict[str, Any],
    live_bytes: int | None = None,
) -> dict[str, Any]:
    """What the parent is told of an exception; of memory that ran out, who asked for how much."""
    _lift_host_limit()  # telling takes memory, too
    told = failure.read(error)
    if told.get("status") == Status.OUT_OF_MEMORY:
        demand = shortage.read(str(error))
        device_mb, host_mb = assignment.experiment.device.memory_limit_mb, assignment.host_limit_mb
        on_host = isinstance(error, MemoryError) or device_mb is None
        live = None if isinstance(error, MemoryError) else live_bytes  # tensors, no host memory
        sentence = demand.sentence(live, host_mb if on_host else device_mb)
        if on_host and host_mb and not assignment.is_timed:
            sentence += f" of which {readable_bytes(TRACER_MB * 2**20)} are the tracer's"
        told["reason"] = f"{sentence}\n{told['reason']}"
        facts["out_of_memory"] = {**asdict(demand), "live_bytes": live_bytes}
    return {**told, "facts": facts}


def _look(assignment: Assignment, pipe: Connection, facts: dict[str, Any]) -> dict[str, Any]:
    """No trial, but the question whether the device is there."""
    from runner.trial import devices

    devices.prepare(assignment.experiment.device, exact=False)
    return {}


def _on_a_bare_stack(function: Callable[..., T], *arguments: Any) -> T:
    """Call `function` with nothing below it on the Python stack.

    TensorFlow walks the Python stack for every eager op, so each frame below a step makes each of
    its ops slower. Under the dozen frames of the forkserver that is several per cent of a small
    step, which a loop in the user's own script would not pay; a greenlet has a stack of its own.
    """
    result: T = greenlet(function).switch(*arguments)
    return result


def _time(assignment: Assignment, pipe: Connection, facts: dict[str, Any]) -> dict[str, Any]:
    """A timing trial: the default allocator, no profiler; seconds and host memory."""
    from runner.trial import devices
    from runner.trial.execution import Execution
    from runner.trial.measure import between, compiling
    from runner.trial.measure.malloc import Books
    from runner.trial.measure.meters import HostMemory, TimingMeter

    experiment = assignment.experiment
    measure = experiment.measure
    limits = Limits(measure.warmup_steps, measure.steps, measure.min_steps, measure.max_seconds)
    placed = devices.prepare(experiment.device, exact=False)
    facts.update(placed.facts)
    execution = Execution(experiment.execution)
    gc.collect()
    books = Books(limits.most_steps)
    remedy = between.remedy(measure.between_steps)

    def do_between(step: int) -> None:
        remedy()
        books.note(step)

    def observe() -> None:
        execution.observe()
        if children := len(list(lifeline.descendants(os.getpid()))):
            facts["child_processes"] = max(children, facts.get("child_processes", 0))

    meter = TimingMeter(HostMemory(assignment.index), books, limits.most_steps)
    compiling.leave_out(meter.pause, meter.resume)
    steps = _on_a_bare_stack(
        go_through,
        lambda: experiment.scenario.build(_desk(assignment, execution, facts)),
        _Announcing(meter, pipe, do_between),
        limits,
        placed.settle,
        observe,
    )
    problem = meter.host.problem
    return {
        "phases": meter.phases,
        "steps": {"seconds": meter.seconds, "host_bytes": meter.host_bytes},
        "facts": {
            "warmup_steps": measure.warmup_steps,
            "host_collected_bytes": meter.collected_bytes,
            "unavailable": {"host_peak_bytes": problem} if problem else {},
            **facts,
            **placed.findings(exact=False),
            **execution.facts(steps - measure.warmup_steps),
            "malloc": books.to_json(),
        },
    }


def _trace(assignment: Assignment, pipe: Connection, facts: dict[str, Any]) -> dict[str, Any]:
    """A memory trial: the allocator that counts every byte, under TensorFlow's profiler."""
    from runner.trial import devices
    from runner.trial.execution import Execution
    from runner.trial.measure import between, samples
    from runner.trial.measure.calls import Calls
    from runner.trial.measure.meters import HostMemory, MemoryMeter
    from runner.trial.measure.replay import NoAllocations, Traced
    from runner.trial.measure.requests import RequestCollector
    from runner.trial.measure.tracing import AllocationTracing

    experiment = assignment.experiment
    placed = devices.prepare(experiment.device, exact=True)
    facts.update(placed.facts)
    execution = Execution(experiment.execution)
    requests = RequestCollector(placed.allocator)
    also = requests.feed if assignment.with_requests else None
    calls = None
    if assignment.with_lines:
        calls = Calls([_folder_of(experiment.scenario)], Path(tempfile.gettempdir()) / "xla")
        calls.watch()
    tracing = AllocationTracing(placed.allocator, also=also, witness=calls)
    steps = experiment.measure.memory_steps
    remedy = between.remedy(experiment.measure.between_steps)
    tracing.start()
    try:
        _on_a_bare_stack(
            go_through,
            lambda: experiment.scenario.build(_desk(assignment, execution, facts)),
            _Announcing(MemoryMeter(tracing), pipe, lambda _: remedy()),
            Limits(warmup_steps=0, steps=steps, min_steps=steps, max_seconds=math.inf),
            placed.settle,
            execution.observe,
        )
    except BaseException as error:
        live = found = None
        with contextlib.suppress(Exception):  # what was live then says why; but the error is first
            found = tracing.finish()
            live = samples.most_live_at_last(found)
            facts.update(placed.findings(exact=True))
        told = _told(error, assignment, facts, live)
        return {**told, "allocations": samples.allocations(found) if found else None}
    peak = placed.allocator_peak_bytes()
    facts |= {**placed.findings(exact=True), **execution.facts(steps), "allocator_peak_bytes": peak}
    found = tracing.finish()
    counted = isinstance(found, Traced) and found.checks and found.checks.events
    if placed.is_disarmed and not counted:
        found = NoAllocations(devices.DISARMED)
        del facts["allocator_peak_bytes"]
    facts["process_peak_bytes"] = HostMemory().read().high_water  # with all that tracing takes
    if assignment.with_requests:
        facts["requests"] = requests.to_json()
    return samples.of_memory_trial(found, facts)


def _hold(assignment: Assignment, pipe: Connection, facts: dict[str, Any]) -> dict[str, Any]:
    """A host trial: what each step leaves behind, by line and kind, and what holds it."""
    from runner.trial import devices, hold
    from runner.trial.execution import Execution
    from runner.trial.measure import between
    from runner.trial.measure.survivors import Survivors

    experiment = assignment.experiment
    survivors = Survivors()
    placed = devices.prepare(experiment.device, exact=False)
    facts.update(placed.facts)
    execution = Execution(experiment.execution)
    remedy = between.remedy(experiment.measure.between_steps)
    held = hold.go_through(
        lambda: experiment.scenario.build(_desk(assignment, execution, facts)),
        _Announcing(_Silent(), pipe, lambda _: remedy()),
        survivors,
        placed.settle,
    )
    return {"facts": {**facts, "held": held, "unavailable": {}}}


class _Silent:
    """A meter that reads nothing."""

    def begin(self, phase: Phase, step: int) -> None: ...

    def end(self, phase: Phase, step: int) -> None: ...


def _folder_of(scenario: object) -> Path:
    """What stands beside a scenario is user code, wherever it is installed."""
    return Path(str(sys.modules[type(scenario).__module__].__file__)).parent


def _desk(assignment: Assignment, execution: Any, facts: dict[str, Any]) -> Desk:
    import tensorflow as tf

    experiment = assignment.experiment
    tf.random.set_seed(experiment.seed)
    sent = experiment.sent
    return Desk(
        experiment.seed,
        execution.name,
        assignment.note,
        functools.partial(received.function, sent) if sent else None,
        experiment.batch_size,
        execution.compile,
        facts,
    )
