"""Child side: an exception as a status, and a reason that names its line. TensorFlow's errors are
translated here."""

from __future__ import annotations

import re
import textwrap
import traceback
from typing import Any

from runner import places
from runner.errors import BadInput, RunnerError, Unavailable
from runner.records import Status
from runner.scenario import StartAnew
from runner.trial.owners import LIBRARIES, OURS, SCENARIO, USERS, owner

_QUOTED = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+).*$', re.MULTILINE)
"""A line of the stack that TensorFlow writes into the message of an error in a graph."""

_NO_ROOM = re.compile("RESOURCE_EXHAUSTED|Cannot parse tensor from proto")
"""In other errors than the one for it: the second is a constant of a graph that found no room."""

_NOISE = re.compile(r"\x1b\[[0-9;]*m|\{\{function_node [^}]*\}\} | name: $")


_DOORS = str(places.package() / "trial" / "measure" / "calls.py")
"""Stands between the user's code and TensorFlow in a memory trial, and calls nobody's code."""


def read(error: BaseException) -> dict[str, Any]:
    """What the parent is told of an exception: its kind, its last line, and whose line it was."""
    if isinstance(error, StartAnew):
        return {"note": error.note}
    traceback.print_exception(error)
    if isinstance(error, SystemExit):
        return {"status": "failed", "reason": f"the code called sys.exit({error.code!r})"}
    status = _status(error)
    reason = _said(error)
    if len(reason) > 1500:
        reason = f"{reason[:1500]}..."
    where = None if isinstance(error, RunnerError) else _their_line(error)
    whole = f"{reason}{f' ({where})' if where else ''}"
    # Half a character is no text: no file can hold it.
    return {"status": status, "reason": whole.encode(errors="backslashreplace").decode()}


def _status(error: BaseException) -> Status:
    import tensorflow as tf

    if isinstance(error, Unavailable):
        return Status.UNSUPPORTED
    if isinstance(error, MemoryError | tf.errors.ResourceExhaustedError):
        return Status.OUT_OF_MEMORY
    if isinstance(error, tf.errors.OpError) and _NO_ROOM.search(_message(error)):
        return Status.OUT_OF_MEMORY
    return Status.FAILED


def _said(error: BaseException) -> str:
    """Its kind and what it says, without the stack that its message may quote."""
    if isinstance(error, BadInput):  # in one line, as a table has only the first: what to do next
        return f"{error.problem} {error.remedy}".rstrip()
    if isinstance(error, RunnerError):
        return str(error)
    kind, text = type(error).__name__, _NOISE.sub("", _message(error))
    quoted = list(_QUOTED.finditer(text))
    if quoted:
        text = textwrap.dedent(text[quoted[-1].end() :].partition("\n\n")[2]) or text
    text = text.strip().removeprefix(f"{kind}: ")
    return f"{kind}: {text}" if text else kind


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as worse:
        return f"its message can't be read, for that raises {type(worse).__name__}"


def _their_line(error: BaseException) -> str | None:
    """The innermost line that is the user's: in no library, or in the installed package that the
    scenario called; else the scenario's own."""
    whole = traceback.extract_tb(error.__traceback__)
    stack = [each for each in whole if each.filename != _DOORS]
    lines = [(each.filename, each.lineno, each.name) for each in stack]
    lines += [(file, int(line), name) for file, line, name in _QUOTED.findall(_message(error))]
    owners = [owner(file) for file, _, _ in lines]
    ours = [place for place, whose in enumerate(owners) if whose in OURS]
    called = owners[ours[-1] + 1] if ours and ours[-1] + 1 < len(owners) else "tensorflow"
    wanted = USERS if USERS in owners else SCENARIO if called in LIBRARIES else called
    for (file, line, name), whose in zip(reversed(lines), reversed(owners), strict=True):
        if whose == wanted:
            return f"{file}:{line} in {name}"
    return None
