"""Find which functions a program without a known step calls again and again. Child side.

    after 3 s without a step    the calls of the script's thread are counted, by `sys.setprofile`
    2 s later, or up to 9 s     the parent is told of them
    one of them is to be used   the script is stopped where it is called next

The likeliest step is what the loop itself calls: of all functions that were called again the one
with the fewest callers above it; of several, such as reading and handling, what computes longest.
"""

from __future__ import annotations

import _thread
import ctypes
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from types import CodeType, FrameType

from runner.meters.clock import Clock
from runner.meters.code_owner import USERS, find_owner
from runner.records import RepeatedCalls

WAIT_SECONDS = 3.0
"""Seconds without a step before calls are counted: most with a known one have begun it."""
COUNT_SECONDS = 2.0
"""Least seconds of counting."""
TELL_SECONDS = 9.0
"""Seconds after which a person is told, even if no function was called again yet."""
MOST_SECONDS = 60.0
"""Seconds after which counting is given up; it slows the program."""
ENOUGH_CALLS = 3
"""Calls of the likeliest that end the counting early."""

_TICK_SECONDS = 0.25
_MOST_TOLD = 5
_NO_PLAIN_CALL = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of functions that are entered anew at each `yield` or `await`, which is no call."""


@dataclass(frozen=True)
class CalledFunction:
    """A function, and the name that `scenario.step` takes."""

    code: CodeType
    step: str


@dataclass
class _Calls:
    count: int = 0
    seconds: float = 0.0
    """Computed within those that have returned."""


class CallSearch:
    """Looks for repeated calls in the thread that makes it, until it is ended."""

    def __init__(
        self,
        has_step: Callable[[], bool],
        find_called: Callable[[FrameType], CalledFunction | None],
        tell: Callable[[RepeatedCalls], None],
        may_choose: Callable[[], bool],
        choose: Callable[[str], None],
    ) -> None:
        """`choose` is called with the likeliest step when that is called next, and raises."""
        self._has_step, self._find_called, self._tell = has_step, find_called, tell
        self._may_choose, self._choose = may_choose, choose
        self._chosen: CalledFunction | None = None
        self._is_over = Event()
        self._calls: dict[tuple[int, CalledFunction], _Calls] = {}
        """By depth, from where counting began, and function."""
        self._open: dict[int, tuple[CalledFunction, float]] = {}
        self._depth = 0
        self._has_counted = False
        self._begin = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._begin_counting)
        _thread.start_new_thread(self._watch, ())  # one that `threading` doesn't show the program

    def end(self) -> None:
        """Stop looking."""
        self._is_over.set()

    def _watch(self) -> None:
        began = Clock.seconds()
        if self._is_over.wait(WAIT_SECONDS) or self._has_step():
            return
        self._count_in_main_thread()
        is_told = False
        while not self._is_over.wait(_TICK_SECONDS) and not self._has_step():
            seconds = Clock.seconds() - began
            if seconds < WAIT_SECONDS + COUNT_SECONDS:
                continue
            functions = self._rank_functions(ENOUGH_CALLS)
            if not functions and seconds > TELL_SECONDS:
                functions = self._rank_functions(2)
            if functions or (seconds > TELL_SECONDS and not is_told):
                is_told = True
                steps = tuple(dict.fromkeys(function.step for function in functions))[:_MOST_TOLD]
                goes_on = bool(steps) and self._may_choose()
                self._tell(RepeatedCalls(round(seconds), steps, goes_on, not self._has_counted))
                self._chosen = functions[0] if goes_on else None
            if self._chosen is not None:
                while not self._is_over.wait(1.0):  # a program may catch what stops it
                    self._count_in_main_thread()
            if functions or seconds > MOST_SECONDS:
                break
        self._is_over.set()

    def _count_in_main_thread(self) -> None:
        # Only a thread itself can set its profile function, before Python 3.12.
        ctypes.pythonapi.Py_AddPendingCall(self._begin, None)

    def _begin_counting(self, _: object) -> int:
        if not self._is_over.is_set() and sys.getprofile() is None:
            self._has_counted = True
            sys.setprofile(self._note)
        return 0

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if self._is_over.is_set():
            sys.setprofile(None)
        elif event == "call":
            self._depth += 1
            called = self._find_called(frame)
            if called is not None:
                if called == self._chosen:
                    self._choose(called.step)
                self._open[self._depth] = called, Clock.computed_seconds()
        elif event == "return":
            called, began = self._open.pop(self._depth, (None, 0.0))
            if called is not None:
                calls = self._calls.setdefault((self._depth, called), _Calls())
                calls.count += 1
                calls.seconds += Clock.computed_seconds() - began
            self._depth -= 1

    def _rank_functions(self, least_calls: int) -> list[CalledFunction]:
        """Return the functions that were called again, the likeliest step first; none where the
        first of them was called less often than that."""
        repeated = [item for item in list(self._calls.items()) if item[1].count > 1]
        repeated.sort(key=lambda item: (item[0][0], -item[1].seconds))
        if not repeated or repeated[0][1].count < least_calls:
            return []
        return [called for (_, called), _ in repeated]


def name_function(code: CodeType, module: str) -> CalledFunction | None:
    """Return a function of the user's that `scenario.step` can name; None for any other."""
    if code.co_flags & _NO_PLAIN_CALL or find_owner(code.co_filename) != USERS:
        return None
    names = code.co_qualname.replace(".<locals>", "")
    is_nameable = names.replace(".", "").isidentifier()
    is_within_function = names != code.co_qualname and module != "__main__"
    if not is_nameable or is_within_function:
        return None
    return CalledFunction(code, f"{module}:{names}")
