"""Run one trial, from setting the device to sending the result. Child side.

The child says which phase it enters, so that the parent knows where it was if it ends badly, and
last its result. What it calls after the user's code was looked up before it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NoReturn

from runner import user_code
from runner.cell import TRACER_MB, TrialSpec
from runner.errors import RunnerError
from runner.facts import TrialFacts
from runner.meters import code_owner
from runner.metrics import format_mebibytes
from runner.processes import process_tree, zygote
from runner.processes.protocol import CANNOT_SEND, DEADLINE, Channel, Task
from runner.records import ChildMessage, Status, TrialResult
from runner.trial import failure, forked, host_limit, loader, out_of_memory
from runner.trial.setup import PreparedTrial, Salvage, TrialSetup

_open, _dup2, _exit, _print_exception = os.open, os.dup2, os._exit, traceback.print_exc


def main(task: Task, channel: Channel) -> None:
    """Do the task, and end by `os._exit`: nothing of the user's runs after the result."""
    facts = TrialFacts()
    spec, began_as = None, forked.getpid()
    try:
        zygote.enter(task)
        code_owner.note_folder()
        user_code.watch_imports()
        spec = pickle.loads(task.work)
        if spec.kind == "memory":  # before TensorFlow starts threads, which one would end
            signal.pthread_sigmask(signal.SIG_BLOCK, {DEADLINE})
        trial = _prepare(spec, channel, facts)
        ending = threading.Lock()
        if trial.salvage is not None:
            _answer_deadline(trial.salvage, ending, partial(_report, spec, channel), facts)
        try:
            try:
                measured = trial.go()
            finally:
                if forked.getpid() != began_as:
                    forked.end(sys.exc_info()[1], lambda: None)
                ending.acquire()
        except BaseException as error:
            code_owner.return_to_folder()
            result = _explain(error, spec, facts, trial.salvage() if trial.salvage else None)
        else:
            code_owner.return_to_folder()
            result = trial.finish(measured)
    except BaseException as error:
        result = _explain(error, spec, facts)
    _report(spec, channel, result)


def _answer_deadline(
    salvage: Callable[[], Salvage],
    ending: threading.Lock,
    report: Callable[[TrialResult], NoReturn],
    facts: TrialFacts,
) -> None:
    """Have a thread send what is known at the deadline: the program's own may be in TensorFlow for
    minutes. Who takes `ending` first ends the trial."""

    def answer() -> None:
        signal.sigwait({DEADLINE})
        if ending.acquire(blocking=False):
            allocations = salvage().allocations
            report(TrialResult(status=Status.TIMED_OUT, facts=facts, allocations=allocations))

    threading.Thread(target=answer, name="deadline", daemon=True).start()


def _report(spec: TrialSpec | None, channel: Channel, result: TrialResult) -> NoReturn:
    """Send the result, and end this process."""
    with suppress(Exception):  # the user's code may have put anything among the modules
        function = spec.experiment.function if spec else None
        theirs = [*code_owner.list_user_files(), *(function.files if function else ())]
        if files := user_code.hash_files(theirs):
            result.facts.code = files
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(BaseException):  # the user's code may have put anything in its place
            stream.flush()  # type: ignore[union-attr]
    with suppress(Exception):
        result.is_alone = not any(process_tree.list_children(os.getpid()))
    try:
        channel.send(ChildMessage(result=result))
    except BaseException:
        with suppress(BaseException):
            _print_exception()
        _exit(CANNOT_SEND)
    with suppress(OSError):  # the output ends now, not when memory has been left
        nowhere = _open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            _dup2(nowhere, descriptor)
    _exit(0)


def _prepare(spec: TrialSpec, channel: Channel, facts: TrialFacts) -> PreparedTrial:
    """Return the trial, ready to go; `facts` takes what is known of it however it ends."""
    if loader.problem:
        why = loader.problem.strip().splitlines()[-1]
        raise RunnerError(f"TensorFlow could not be loaded: {why}\n{loader.problem}")
    host_limit.impose(spec)
    setup = TrialSetup(spec, channel, facts)
    match spec.kind:
        case "timing":
            from runner.trial.timing_trial import prepare
        case "memory":
            from runner.trial.memory_trial import prepare
        case "host":
            from runner.trial.host_trial import prepare
        case _:  # no trial, but the question whether the device is there
            return PreparedTrial(TrialResult, lambda result: result)
    return prepare(setup)


def _explain(
    error: BaseException, spec: TrialSpec | None, facts: TrialFacts, salvage: Salvage | None = None
) -> TrialResult:
    """Return the result that an exception makes; of memory that ran out, who asked for how much."""
    host_limit.lift()  # telling takes memory, too
    try:
        result = failure.translate_error(error)
    except BaseException as worse:  # the user's code may have replaced what reads it
        why = f"{type(error).__name__}; it can't be described, for {failure.blame(worse)}"
        result = TrialResult(status=Status.FAILED, reason=why)
    if spec and result.status is Status.OUT_OF_MEMORY:
        request = out_of_memory.read_request(failure.read_message(error))
        device_mb, host_mb = spec.experiment.device.memory_limit_mb, spec.host_limit_mb
        is_host_error = issubclass(type(error), MemoryError)
        on_host = is_host_error or device_mb is None
        live_bytes = salvage.live_bytes if salvage else None
        live = None if is_host_error else live_bytes  # tensors, no host memory
        sentence = out_of_memory.describe_request(request, live, host_mb if on_host else device_mb)
        if on_host and host_mb and not spec.is_timed:
            sentence += f" of which {format_mebibytes(TRACER_MB)} are the tracer's"
        result.reason = f"{sentence}\n{result.reason}"
        facts.out_of_memory = replace(request, live_bytes=live_bytes)
    result.facts = facts
    if salvage:
        result.allocations = salvage.allocations
    return result
