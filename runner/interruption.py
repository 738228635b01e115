"""Ctrl-C, a polite kill and a closed terminal: each ends a command in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runner.errors import Interrupted

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """The first of these signals raises `Interrupted`; more of them change nothing."""

    def stop(number: int, _: FrameType | None) -> None:
        for each in _WATCHED:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {each: signal.signal(each, stop) for each in _WATCHED}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
