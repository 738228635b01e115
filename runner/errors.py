"""The tree of errors. Each says what is wrong, and what to do next; the front door prints them.

RunnerError
├── BadInput            what the user wrote can't be run            exit code 2
├── Unavailable         this machine lacks what was asked for       exit code 2
├── StoreError          the tracking store could not take a record  never ends a run
│   └── StoreOutOfReach nor will it take the next one
├── ViewError           a file made of records can't be written     never ends a run
├── CodeChanged         the user's code is not what it was          exit code 1
├── ServerError         the warm server could not be started        exit code 1
└── WriteError          the results cannot be written               exit code 1

Interrupted             Ctrl-C or SIGTERM                           exit code 130 or 143

A foreign error is translated once, where it enters: Hydra's in `compose.translation`,
TensorFlow's in `trial.failure`, MLflow's in `store.mlflow_store`.
"""

from __future__ import annotations

import difflib
import errno
import signal
from collections.abc import Iterable


class RunnerError(Exception):
    """An error with a sentence on the problem, and another on the remedy."""

    exit_code = 1

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n  {self.remedy}" if self.remedy else self.problem


class BadInput(RunnerError):
    """The words on the command line, or a YAML file, can't be run as they stand. What is quoted of
    them stays on its line."""

    exit_code = 2

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(*(text.replace("\n", "\\n") for text in (problem, remedy)))


class Unavailable(RunnerError):
    """This machine lacks something that was asked for."""

    exit_code = 2


class StoreError(RunnerError):
    """The tracking store did not take a record; the record itself is safe."""


class StoreOutOfReach(StoreError):
    """The tracking store does not answer."""


class ViewError(RunnerError):
    """A file that is made of records could not be written; the records are safe."""


class ServerError(RunnerError):
    """The warm server could not be started, so no trial can run."""


class CodeChanged(RunnerError):
    """The user's code changed while it was measured, so nothing more can be added."""


class WriteError(RunnerError):
    """Results cannot be written: the disk is full, or something is not where it was."""


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_SYSTEMS = frozenset(
    (
        *(*_NO_ROOM, errno.EIO, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EAGAIN),
        *(errno.ENOMEM, errno.ESTALE, errno.EBUSY, errno.ENODEV, errno.ENXIO, errno.EREMOTEIO),
        *(errno.ENOTCONN, errno.ETIMEDOUT, errno.ENOLCK, errno.EDEADLK, errno.EINTR),
    )
)


_PATH_ERRORS = frozenset(
    (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS)
)
"""Errors that are the path's own, whoever asks for it, where they name one."""


def is_disk_full(error: OSError) -> bool:
    """Return whether the error says that a disk, or a quota on it, is full."""
    return error.errno in _NO_ROOM


def is_systems_fault(error: OSError) -> bool:
    """Return whether the machine is at fault: a disk that fails or is full, no descriptor left; or
    whether a folder is gone, or refused, that nobody has named."""
    is_unnamed = not error.filename and error.errno in {errno.ENOENT, *_PATH_ERRORS}
    return error.errno in _SYSTEMS or is_unnamed


def translate_write_error(error: OSError) -> WriteError:
    """Return the error in the words of this tree; raise it again if it is about no file, and no
    fault of the machine's."""
    where = f"{error.filename}: " if error.filename else ""
    again = "then go on: repeat the words, for a sweep with resume=latest added."
    if is_disk_full(error):
        return WriteError(
            f"{where}the disk is full; every trial that had ended before is kept.",
            f"Make room, {again}",
        )
    if not where and not is_systems_fault(error):
        raise error
    if not where and error.errno == errno.ENOENT:
        return WriteError("the folder in which this was started is gone.", "Start in another one.")
    if not where:
        return WriteError(
            f"the system refuses what was asked ({error.strerror}); what was written is kept.",
            f"Look at the machine's disk and limits, {again}",
        )
    return WriteError(
        f"{where}cannot be used ({error.strerror}); what else was written is kept.",
        f"Restore it, or move away what stands there, {again}",
    )


def translate_system_error(error: Exception) -> RunnerError | None:
    """Return what a foreign error says of the machine or of a name that was given to it; None where
    it says neither, and nobody has foreseen it."""
    if isinstance(error, UnicodeEncodeError):
        text = error.object[max(0, error.start - 100) : error.end + 100]
        return BadInput(f"{text}: is not UTF-8.", "Rename it.")
    if not isinstance(error, OSError):
        return None
    if is_systems_fault(error):
        return translate_write_error(error)
    if error.errno in _PATH_ERRORS:
        path = str(error.filename)
        path = path if len(path) <= 200 else f"{path[:100]}...{path[-100:]}"
        return BadInput(
            f"{path}: {error.strerror}.", "Name a path that can be read, and written to."
        )
    return None


def get_first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or else its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class Interrupted(BaseException):
    """The user, or the machine, asked us to stop. No Exception: Hydra goes on after any of them."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.exit_code = 128 + signal_number


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a remedy that names the right word: the nearest one first, then all of them."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    if not close and len(name) > 2:
        close = [choice for choice in choices if name in choice]
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{hint}There is: {', '.join(choices)}." if choices else hint
