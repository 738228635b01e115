"""Exceptions of which nothing can be read, in a process whose streams and functions are replaced.

Whatever is raised is a failed trial with a reason that can be printed and sent, and that names the
exception's class.
"""

from __future__ import annotations

import builtins
import io
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from runner import schema
from runner.facts import TrialFacts
from runner.records import ChildMessage, Status, TrialResult
from runner.trial import worker

KINDS: tuple[type[BaseException], ...] = (
    *(Exception, ValueError, KeyError, OSError, SyntaxError, UnicodeDecodeError, RecursionError),
    *(SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, BaseException, ImportError),
    *(AttributeError, NameError, ExceptionGroup, MemoryError),
)
PARTS = (
    *("__str__", "__repr__", "__class__", "__traceback__", "__cause__", "__context__", "args"),
    *("__notes__", "__suppress_context__", "code", "msg", "filename", "text", "name", "strerror"),
    *("exceptions", "__format__", "__getattribute__", "__hash__", "__eq__", "__dict__"),
)
RAISED: tuple[type[BaseException], ...] = (
    *(ValueError, KeyError, SystemExit, KeyboardInterrupt, RecursionError, MemoryError),
    *(StopIteration, GeneratorExit),
)
VALUES: tuple[Any, ...] = (
    *(None, 5, b"\xff", "\ud800\x1b[2J\u202e", "x" * 10_000, "a\nb\nrunner: all is well", "%s{0}"),
    *([], {"a": object()}, object(), float("nan"), type),
)


def make_class(chance: random.Random) -> type[BaseException]:
    """Return a class of exceptions some parts of which raise, lie, or are of another type."""
    kind, parts = chance.choice(KINDS), {}
    for name in chance.sample(PARTS, chance.choice((1, 1, 2, 3))):
        raised, value = chance.choice(RAISED), chance.choice(VALUES)
        fails = chance.random() < 0.6

        def part(
            *_: object,
            raised: type[BaseException] = raised,
            value: Any = value,
            fails: bool = fails,
        ) -> Any:
            if fails:
                raise raised("broken")
            return value

        is_method = name in ("__str__", "__repr__", "__format__", "__hash__", "__eq__")
        is_method = is_method or name == "__getattribute__"
        parts[name] = part if is_method else property(part)
    return type(chance.choice(("Odd", "Ödd", "O" * 300)), (kind,), parts)


def make_error(chance: random.Random) -> BaseException:
    """Return an exception of such a class, maybe in a chain of them."""
    kind = make_class(chance)
    value = chance.choice(VALUES)
    if issubclass(kind, ExceptionGroup):
        error: BaseException = kind("several", [ValueError(value)])
    elif issubclass(kind, UnicodeDecodeError):
        error = kind("utf-8", b"\xff", 0, 1, "why")
    else:
        error = kind(value)
    for _ in range(chance.choice((0, 0, 1, 200))):
        deeper = chance.choice(KINDS[:5])("deep")
        deeper.__cause__ = error if chance.random() < 0.5 else None
        deeper.__context__ = error
        error = deeper
    return error


class _BrokenStream(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError("broken")

    def flush(self) -> None:
        raise KeyboardInterrupt


def _fails(*_: object, **__: object) -> Any:
    raise RuntimeError("it was replaced")


SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "as they are": io.StringIO,
    "a broken stream": _BrokenStream,
    "no stream": lambda: None,
    "no stream at all": object,
}
REPLACED: tuple[tuple[Any, str], ...] = (
    *((builtins, "open"), (traceback, "print_exception"), (traceback, "extract_tb")),
    *((traceback.TracebackException, "__init__"), (sys, "excepthook")),
)


_SPEC: Any = SimpleNamespace(
    experiment=SimpleNamespace(device=SimpleNamespace(memory_limit_mb=None)),
    host_limit_mb=None,
    is_timed=True,
)


class _Unlucky(Exception):
    """In place of TensorFlow's kinds of errors."""


def explain(_: Path, count: int) -> Iterator[str | None]:
    """Have so many exceptions explained, in odd surroundings."""
    for number in range(count):
        yield _explain_one(random.Random(f"exception {number}"), number)


def explain_error(error: BaseException) -> TrialResult:
    """Return what a child makes of an error, without TensorFlow."""
    errors = SimpleNamespace(ResourceExhaustedError=_Unlucky, OpError=_Unlucky)
    with mock.patch.dict(sys.modules, tensorflow=SimpleNamespace(errors=errors)):
        try:
            raise error
        except BaseException as caught:
            return worker._explain(caught, _SPEC, TrialFacts())


def _explain_one(chance: random.Random, number: int) -> str | None:
    surroundings = chance.choice(list(SURROUNDINGS))
    replaced = chance.choice((None, None, *REPLACED))
    error = make_error(chance)
    name = type(error).__name__
    with ExitStack() as odd:
        odd.enter_context(redirect_stdout(io.StringIO()))
        odd.enter_context(redirect_stderr(SURROUNDINGS[surroundings]()))
        if replaced:
            odd.enter_context(mock.patch.object(*replaced, _fails))
        try:
            result = explain_error(error)
        except BaseException as worse:
            return f"{number}, {name}, {surroundings}, {replaced}: {type(worse).__name__} came out"
    reason = result.reason or ""
    schema.encode(ChildMessage(result=result)).decode("ascii")
    is_full = issubclass(type(error), MemoryError)
    if result.status is not (Status.OUT_OF_MEMORY if is_full else Status.FAILED):
        return f"{number}, {name}, {surroundings}, {replaced}: {result.status}"
    if name not in reason and not reason.startswith("the code called sys.exit("):
        return f"{number}, {name}, {surroundings}, {replaced}: the reason is {reason[:200]!r}"
    return None if len(reason) < 2500 else f"{number}, {name}: {len(reason)} characters"
