"""Child side: one trial, from setting the device to sending the result.

The child says on a pipe which phase it enters, so that the parent knows where it was if it ends
badly, and last the result as JSON. TensorFlow's errors are translated here.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import re
import resource
import sys
import sysconfig
import textwrap
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from runner import places
from runner.config import Experiment
from runner.errors import RunnerError
from runner.isolation import lifeline
from runner.measure import samples
from runner.measure.phases import Limits, Meter, go_through
from runner.records import Phase
from runner.scenario import Function, StartAnew

CANNOT_SEND = 86
"""Exit code of a child whose trial ended but whose result could not be sent."""


@dataclass(frozen=True)
class Assignment:
    """What one child is to do."""

    experiment: Experiment
    kind: str
    index: int
    note: str | None = None
    """What `StartAnew` said in an earlier process of this cell."""


@dataclass
class Desk:
    """The `Bench` that a scenario builds on."""

    batch_size: int
    seed: int
    execution: str
    note: str | None
    _compile: Any

    def compile(self, function: Function, *, reduce_retracing: bool = False) -> Function:
        compiled: Function = self._compile(function, reduce_retracing=reduce_retracing)
        return compiled


class _Announcing:
    """A meter that says which phase begins, then lets the real one read."""

    def __init__(self, meter: Meter, pipe: Connection) -> None:
        self._meter = meter
        self._pipe = pipe
        self._phase: Phase | None = None

    def begin(self, phase: Phase, step: int) -> None:
        if phase is not self._phase:
            self._phase = phase
            _say(self._pipe, phase=phase.value)
        self._meter.begin(phase, step)

    def end(self, phase: Phase, step: int) -> None:
        self._meter.end(phase, step)


def main(assignment: Assignment, pipe: Connection, output: Connection) -> None:
    """The child's whole life. Ends by `os._exit`: nothing of the user's runs after the result."""
    os.setsid()  # the terminal's Ctrl-C is the parent's affair; and the whole group can be ended
    lifeline.die_with_parent()
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    output.close()
    try:
        result = _trial(assignment, pipe)
    except BaseException as error:
        result = _failure(error)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        _say(pipe, result=result)
    except BaseException:
        traceback.print_exc()
        os._exit(CANNOT_SEND)
    os._exit(0)


def _say(pipe: Connection, **message: Any) -> None:
    pipe.send_bytes(json.dumps(message, allow_nan=False).encode())


def _trial(assignment: Assignment, pipe: Connection) -> dict[str, Any]:
    from runner.isolation import warm

    if warm.problem:
        raise RunnerError(f"TensorFlow could not be loaded.\n{warm.problem}")
    _limit_host(assignment.experiment.measure.host_limit_mb)
    trial = _time if assignment.kind == "timing" else _trace
    return trial(assignment, pipe)


def _limit_host(limit_mb: int | None) -> None:
    if limit_mb is None:
        return
    with open("/proc/self/status") as status:  # noqa: PTH123
        data = next(line for line in status if line.startswith("VmData:"))
    limit = int(data.split()[1]) * 1024 + limit_mb * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _time(assignment: Assignment, pipe: Connection) -> dict[str, Any]:
    """A timing trial: the default allocator, no profiler; seconds and host memory."""
    from runner import devices
    from runner.execution import Execution
    from runner.measure.meters import HostMemory, TimingMeter

    experiment = assignment.experiment
    measure = experiment.measure
    limits = Limits(measure.warmup_steps, measure.steps, measure.min_steps, measure.max_seconds)
    placed = devices.prepare(experiment.device, exact=False)
    execution = Execution(experiment.execution)
    gc.collect()
    meter = TimingMeter(HostMemory())
    steps = go_through(
        lambda: experiment.scenario.build(_desk(assignment, execution)),
        _Announcing(meter, pipe),
        limits,
        placed.settle,
        execution.observe,
    )
    problem = meter.host.problem
    return {
        "phases": meter.phases,
        "steps": {"seconds": meter.seconds, "host_bytes": meter.host_bytes},
        "facts": {
            "warmup_steps": measure.warmup_steps,
            "unavailable": {"host_peak_bytes": problem} if problem else {},
            **placed.facts,
            **execution.facts(steps - measure.warmup_steps),
        },
    }


def _trace(assignment: Assignment, pipe: Connection) -> dict[str, Any]:
    """A memory trial: the allocator that counts every byte, under TensorFlow's profiler."""
    from runner import devices
    from runner.execution import Execution
    from runner.measure.meters import MemoryMeter
    from runner.measure.tracing import AllocationTracing

    experiment = assignment.experiment
    placed = devices.prepare(experiment.device, exact=True)
    execution = Execution(experiment.execution)
    tracing = AllocationTracing(placed.allocator)
    steps = experiment.measure.memory_steps
    tracing.start()
    try:
        go_through(
            lambda: experiment.scenario.build(_desk(assignment, execution)),
            _Announcing(MemoryMeter(tracing), pipe),
            Limits(warmup_steps=0, steps=steps, min_steps=steps, max_seconds=math.inf),
            placed.settle,
            execution.observe,
        )
    except BaseException as error:
        failure = _failure(error)
        with contextlib.suppress(Exception):  # what was live then says why; but the error is first
            failure["allocations"] = samples.allocations(tracing.finish())
        return failure
    peak = placed.allocator_peak_bytes()
    facts = {**placed.facts, **execution.facts(steps), "allocator_peak_bytes": peak}
    return samples.of_memory_trial(tracing.finish(), facts)


def _desk(assignment: Assignment, execution: Any) -> Desk:
    import tensorflow as tf

    experiment = assignment.experiment
    tf.random.set_seed(experiment.seed)
    return Desk(
        experiment.batch_size,
        experiment.seed,
        execution.name,
        assignment.note,
        execution.compile,
    )


def _failure(error: BaseException) -> dict[str, Any]:
    """What the parent is told of an exception: its kind, its last line, and whose line it was."""
    if isinstance(error, StartAnew):
        return {"note": error.note}
    traceback.print_exception(error)
    if isinstance(error, SystemExit):
        return {"status": "failed", "reason": f"the code called sys.exit({error.code!r})"}
    status = "out_of_memory" if _is_out_of_memory(error) else "failed"
    reason = _said(error)
    if len(reason) > 1500:
        reason = f"{reason[:1500]}..."
    where = None if isinstance(error, RunnerError) else _their_line(error)
    return {"status": status, "reason": f"{reason}{f' ({where})' if where else ''}"}


def _is_out_of_memory(error: BaseException) -> bool:
    import tensorflow as tf

    if isinstance(error, MemoryError | tf.errors.ResourceExhaustedError):
        return True
    return isinstance(error, tf.errors.OpError) and "RESOURCE_EXHAUSTED" in str(error)


_QUOTED = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+).*$', re.MULTILINE)
"""A line of the stack that TensorFlow writes into the message of an error in a graph."""

_NOISE = re.compile(r"\x1b\[[0-9;]*m|\{\{function_node [^}]*\}\} | name: $")


def _said(error: BaseException) -> str:
    """Its kind and what it says, without the stack that its message may quote."""
    if isinstance(error, RunnerError):
        return str(error)
    kind, text = type(error).__name__, _NOISE.sub("", str(error))
    quoted = list(_QUOTED.finditer(text))
    if quoted:
        text = textwrap.dedent(text[quoted[-1].end() :].partition("\n\n")[2]) or text
    text = text.strip().removeprefix(f"{kind}: ")
    return f"{kind}: {text}" if text else kind


def _their_line(error: BaseException) -> str | None:
    """The innermost line that is the user's: in no library, or in the installed package that the
    scenario called; else the scenario's own."""
    stack = traceback.extract_tb(error.__traceback__)
    lines = [(each.filename, each.lineno, each.name) for each in stack]
    lines += [(file, int(line), name) for file, line, name in _QUOTED.findall(str(error))]
    owners = [_owner(file) for file, _, _ in lines]
    ours = [place for place, owner in enumerate(owners) if owner in _OURS]
    called = owners[ours[-1] + 1] if ours and ours[-1] + 1 < len(owners) else "tensorflow"
    wanted = _USERS if _USERS in owners else _SCENARIO if called in _LIBRARIES else called
    for (file, line, name), owner in zip(reversed(lines), reversed(owners), strict=True):
        if owner == wanted:
            return f"{file}:{line} in {name}"
    return None


_USERS, _PYTHON, _SCENARIO = "the user", "Python", "scenarios"
_OURS = ("runner", _SCENARIO)
_LIBRARIES = (_PYTHON, "tensorflow", "keras", "numpy")


def _owner(file: str) -> str:
    """Whose code it is: an installed package's, by its name; ours, Python's or the user's."""
    path = Path(file)
    for folder in ("site-packages", "dist-packages"):
        if folder in path.parts:
            return path.parts[path.parts.index(folder) + 1]
    for name in _OURS:
        if path.is_relative_to(places.project() / name):
            return name
    made = file.startswith("<") or path.name.startswith("__autograph_generated_file")
    return _PYTHON if made or path.is_relative_to(sysconfig.get_path("stdlib")) else _USERS
