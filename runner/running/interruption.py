"""Ctrl-C, a polite kill and a closed terminal: each ends a command in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runner.errors import Interrupted

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_holding = False
_held_back: list[int] = []


@contextmanager
def interruptible() -> Iterator[None]:
    """The first of these signals raises `Interrupted`; more of them change nothing."""

    def stop(number: int, _: FrameType | None) -> None:
        for each in _WATCHED:
            signal.signal(each, signal.SIG_IGN)
        if _holding:
            _held_back.append(number)
        else:
            raise Interrupted(number)

    before = {each: signal.signal(each, stop) for each in _WATCHED}
    try:
        yield
    finally:
        _held_back.clear()
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def uncut() -> Iterator[None]:
    """A short piece of work that is done whole; a signal that comes meanwhile raises at its end.

    For what is needed once more on the way out: a library that was interrupted in its import (the
    first record imports NumPy) can't be imported again.
    """
    global _holding
    _holding = True
    try:
        yield
    finally:
        _holding = False
        if _held_back:  # even where the work failed: the user's wish comes before the error
            raise Interrupted(_held_back.pop())
