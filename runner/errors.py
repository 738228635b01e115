"""The tree of errors. Each says what is wrong, and what to do next; the front door prints them.

RunnerError
├── BadInput            what the user wrote can't be run            exit code 2
├── Unavailable         this machine lacks what was asked for       exit code 2
├── StoreError          the tracking store could not take a record  never ends a run
│   └── StoreOutOfReach nor will it take the next one
└── ServerError         the warm server could not be started        exit code 1

Interrupted             Ctrl-C or SIGTERM                           exit code 130 or 143

A foreign error is translated once, where it enters: Hydra's in `composing.translation`,
TensorFlow's in `trial.failure`, MLflow's in `tracking.store`.
"""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable


class RunnerError(Exception):
    """What went wrong in one sentence, and the remedy in another."""

    exit_code = 1

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n  {self.remedy}" if self.remedy else self.problem


class BadInput(RunnerError):
    """The words on the command line, or a YAML file, can't be run as they stand."""

    exit_code = 2


class Unavailable(RunnerError):
    """What was asked for needs something that this machine does not have."""

    exit_code = 2


class StoreError(RunnerError):
    """The tracking store did not take a record; the record itself is safe."""


class StoreOutOfReach(StoreError):
    """The tracking store does not answer."""


class ServerError(RunnerError):
    """The warm server could not be started, so no trial can run."""


class Interrupted(BaseException):
    """The user, or the machine, asked us to stop. No Exception: Hydra goes on after any of them."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.exit_code = 128 + signal_number


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy that names the right word: the nearest one first, then all of them."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    if not close and len(name) > 2:
        close = [choice for choice in choices if name in choice]
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{hint}There is: {', '.join(choices)}." if choices else hint
