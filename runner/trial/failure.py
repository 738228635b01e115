"""Translate an exception into a status, and a reason that names its line. Child side; TensorFlow's
errors are translated here and nowhere else."""

from __future__ import annotations

import re
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard, TypeVar

from runner import paths
from runner.errors import BadInput, RunnerError, Unavailable
from runner.meters.code_owner import LIBRARIES, OURS, SCENARIO, USERS, find_owner
from runner.records import Status, TrialResult
from runner.scenario import StartAnew
from runner.trial import refusals

_QUOTED = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+).*$', re.MULTILINE)
"""A line of the stack that TensorFlow writes into the message of an error in a graph."""

_XLA_STACK = "\n\nStack trace for op definition:"
"""XLA's own words come before the stack that it quotes, and a graph's after it."""

_NO_ROOM = re.compile("RESOURCE_EXHAUSTED|Cannot parse tensor from proto")
"""In other errors than the one for it: the second is a constant of a graph that found no room."""

_NOISE = re.compile(
    r"\x1b\[[0-9;]*m|\{\{function_node [^}]*\}\} | name: $|\[_XlaMustCompile=[^\]]*\]"
)

_MOST_CHARACTERS = 1500

E = TypeVar("E", bound=BaseException)

_DOORS = {
    str(paths.find_package() / "meters" / "tensor" / name)
    for name in ("call_recorder.py", "numpy_alignment.py")
}
"""Stand between the user's code and TensorFlow in a memory trial, and call nobody's code."""


def translate_error(error: BaseException) -> TrialResult:
    """Return what the parent is told of an exception: its kind, its last line, and whose line it
    was; of one whose parts can't be read, which part, as the user's code may have replaced any.
    """
    if _is_kind(error, StartAnew):
        return TrialResult(note=error.note)
    broken: list[str] = []
    with _note_broken(broken):
        traceback.print_exception(error)
    if _is_kind(error, SystemExit):
        reason = f"the code called sys.exit({error.code!r})"
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        if any(file.endswith("/argparse.py") for file in files):
            reason += (
                ": argparse refused the words of the command line, as the log says; a script gets "
                "words of its own by `python -m runner script FILE WORDS`"
            )
        return TrialResult(status=Status.FAILED, reason=_shorten(reason))
    reason = _shorten(_describe(error))
    if not _is_kind(error, RunnerError):
        with _note_broken(broken):
            place = f" ({line})" if (line := _find_line(error)) else ""
            advice = refusals.advise(read_message(error))
            # What to do comes first: a table has only the first line.
            reason = f"{advice}{place}\n{reason}" if advice else f"{reason}{place}"
    if broken:
        reason += f"; parts of it cannot be read: {', '.join(dict.fromkeys(broken))}"
    return TrialResult(status=_find_status(error), reason=reason)


def blame(error: BaseException, otherwise: str = "something in it") -> str:
    """Return which function could not do its part: `__str__ raises ValueError`."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code if last else None
    name = code.co_name if code and code.co_filename != __file__ else otherwise
    return f"{name} raises {type(error).__name__}"


def _is_kind(error: BaseException, kind: type[E]) -> TypeGuard[E]:
    """Return whether an error is of a kind; `isinstance` would ask a `__class__` of the user's."""
    return issubclass(type(error), kind)


@contextmanager
def _note_broken(broken: list[str]) -> Iterator[None]:
    """Go on after whatever is raised meanwhile, and note what raised it."""
    try:
        yield
    except BaseException as worse:
        broken.append(blame(worse))


def _find_status(error: BaseException) -> Status:
    if _is_kind(error, Unavailable):
        return Status.UNSUPPORTED
    if _is_kind(error, RunnerError):  # it may say that TensorFlow can't be loaded
        return Status.FAILED
    import tensorflow as tf

    if _is_kind(error, MemoryError) or _is_kind(error, tf.errors.ResourceExhaustedError):
        return Status.OUT_OF_MEMORY
    if _is_kind(error, tf.errors.OpError) and _NO_ROOM.search(read_message(error)):
        return Status.OUT_OF_MEMORY
    return Status.FAILED


def _describe(error: BaseException) -> str:
    """Return its kind and what it says, without the stack that its message may quote."""
    if _is_kind(error, BadInput):  # in one line, as a table has only the first: what to do next
        return f"{error.problem} {error.remedy}".rstrip()
    if _is_kind(error, RunnerError):
        return str(error)
    kind, text = type(error).__name__, _NOISE.sub("", read_message(error))
    text = text.partition(_XLA_STACK)[0]
    quoted = list(_QUOTED.finditer(text))
    if quoted:
        text = textwrap.dedent(text[quoted[-1].end() :].partition("\n\n")[2]) or text
    text = text.strip().removeprefix(f"{kind}: ")
    return f"{kind}: {text}" if text else kind


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def read_message(error: BaseException) -> str:
    """Return what an error says, or why that can't be had."""
    try:
        return str(error)
    except BaseException as worse:
        return f"its message cannot be read: {blame(worse, '__str__')}"


def _find_line(error: BaseException) -> str | None:
    """Return the innermost line that counts, `FILE:LINE in FUNCTION`, or None.

    somebody's line on the stack                        whose innermost line counts
    the user's                                          the user's
    none; the scenario called TensorFlow, Keras, NumPy  the scenario's
    none; the scenario called another package           that package's
    """
    whole = traceback.extract_tb(error.__traceback__)
    lines = [(frame.filename, frame.lineno, frame.name) for frame in whole]
    lines += [(file, int(line), name) for file, line, name in _QUOTED.findall(read_message(error))]
    lines = [line for line in lines if line[0] not in _DOORS]
    owners = [find_owner(file) for file, _, _ in lines]
    ours = [place for place, owner in enumerate(owners) if owner in OURS]
    called = owners[ours[-1] + 1] if ours and ours[-1] + 1 < len(owners) else "tensorflow"
    wanted = USERS if USERS in owners else SCENARIO if called in LIBRARIES else called
    for (file, line, name), owner in zip(reversed(lines), reversed(owners), strict=True):
        if owner == wanted:
            return f"{file}:{line} in {name}"
    return None
