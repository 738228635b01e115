"""Ctrl-C, a polite kill and a closed terminal: each stops a command in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runner.errors import Interrupted

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_is_deferring = False
_deferred: list[int] = []
_received: list[int] = []


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Raise `Interrupted` at the first of these signals and ignore those that follow.

    Does nothing in a program that measures from another thread than its first: signals are that
    program's own matter then. It may be nested.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        for watched in _WATCHED:
            signal.signal(watched, signal.SIG_IGN)
        _received.append(number)
        if _is_deferring:
            _deferred.append(number)
        else:
            raise Interrupted(number)

    _received.clear()
    before = {watched: signal.signal(watched, stop) for watched in _WATCHED}
    try:
        yield
    finally:
        _deferred.clear()
        _received.clear()
        for watched, handler in before.items():
            signal.signal(watched, handler)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Finish a short piece of work; a signal that comes meanwhile raises at its end.

    For a file that must be written whole, and for imports: a library that was interrupted in its
    import cannot be imported again, and the way out may need it.
    """
    global _is_deferring
    _is_deferring = True
    try:
        yield
    finally:
        _is_deferring = False
        if _deferred:  # even where the work failed: the user's wish comes before the error
            raise Interrupted(_deferred.pop())


def raise_if_stopped() -> None:
    """Raise `Interrupted` again, for a loop to call at the start of each of its pieces of work.

    What a signal raised may have been lost: Python 3.11's `int("x")` puts its `ValueError` in its
    place, and a library may catch everything.
    """
    if _received:
        raise Interrupted(_received[0])
