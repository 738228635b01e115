"""Trials from the ends of children: every end is an outcome with phase and reason."""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from dataclasses import replace

from runner.cell import TrialSpec
from runner.metrics import format_bytes
from runner.processes.children import DeadlinePassed, End, ZygoteLost
from runner.processes.protocol import CANNOT_SEND, Ended
from runner.records import COMPLETED, Outcome, Phase, Status, Trial, TrialResult
from runner.schema import Unreadable

NO_ROOM = re.compile(
    rb"std::bad_alloc|pthread_create\(\) failed|Cannot allocate memory|LLVM ERROR: out of memory"
)
"""Messages of native code that asks for memory, gets none, and does not expect that."""


def is_crash(end: End) -> bool:
    """Return True if the child ended as native code does that runs out of memory."""
    crashes = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
    return isinstance(end, Ended) and -end.exit_code in crashes


def is_kill(end: End) -> bool:
    """Return True if the child ended as one does that the kernel kills, or its zygote did."""
    return isinstance(end, ZygoteLost) or (
        isinstance(end, Ended) and end.exit_code == -signal.SIGKILL
    )


def call_out_of_memory(trial: Trial, why: str) -> Trial:
    """Return a trial whose end was memory that ran out; `why` goes on with its reason."""
    reason = f"{trial.outcome.reason} {why}"
    return replace(
        trial, outcome=replace(trial.outcome, status=Status.OUT_OF_MEMORY, reason=reason)
    )


def make_trial(spec: TrialSpec, phase: Phase | None, end: End) -> Trial:
    """Return the trial that was in `phase` when it came to this end."""
    status = Status.FAILED
    match end:
        case TrialResult():
            outcome = Outcome(end.status, phase, end.reason) if end.status else COMPLETED
            return end.as_trial(spec.kind, spec.index, outcome)
        case DeadlinePassed(seconds, result):
            status = Status.TIMED_OUT
            reason = f"passed its deadline of {seconds:g} s (measure.timeout_seconds)"
            if result is not None:
                if result.allocations is not None:
                    peak = format_bytes(result.allocations.total_bytes)
                    reason += f"; its tensors take at least {peak}"
                return result.as_trial(spec.kind, spec.index, Outcome(status, phase, reason))
        case Unreadable():
            reason = f"what the child sent as its result can't be read ({end})"
        case ZygoteLost():
            status, reason = Status.KILLED, "ended together with the server"
        case Ended(code) if code == CANNOT_SEND:
            reason = "its result could not be sent (see the log)"
        case Ended(code) if code < 0:
            name = f"signal {-code}"
            with suppress(ValueError):
                name = signal.Signals(-code).name
            status, reason = Status.KILLED, f"ended by {name}"
        case Ended(code):
            reason = f"the process ended by itself with exit code {code}"
    return Trial(spec.kind, spec.index, Outcome(status, phase, reason))
