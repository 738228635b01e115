"""The terminal: what may be written to it, and how durations are spelled there.

The front door puts a `Screen` in the place of both streams, so that nothing that somebody else
wrote, in a record, a name or an exception, can move the cursor, colour the text or stop a line from
being printed. Codes of our own pass by a mark that is drawn anew in each process.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from runner.foreign import printable

_ESCAPE = chr(0xF0000 + secrets.randbelow(0xFFFE))
"""A private character that stands for our own escape codes until a screen writes them."""


class Screen:
    """A stream that shows what is printable, and whatever its encoding lacks as `\\xNN`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]

    def write(self, text: str) -> int:
        self.stream.write(printable(text).replace(_ESCAPE, "\x1b"))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def screens() -> Iterator[None]:
    """Whatever is printed meanwhile goes through one."""
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, Screen(each)) for each in kept)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = kept


def styled(text: str, code: str, stream: TextIO) -> str:
    """`text` in bold or colour where a person looks on and has not declined (NO_COLOR)."""
    if not draws(stream) or "NO_COLOR" in os.environ:
        return text
    escape = _ESCAPE if isinstance(stream, Screen) else "\x1b"
    return f"{escape}[{code}m{text}{escape}[0m"


def in_place(text: str, stream: TextIO) -> None:
    """Put a line where the last one stood, or only take that away; on a terminal alone."""
    if draws(stream):
        width = shutil.get_terminal_size().columns - 1
        # Beneath the screen, to which a carriage return is somebody else's.
        beneath = stream.stream if isinstance(stream, Screen) else stream
        beneath.write(f"\r\x1b[K{printable(text)[:width]}")
        beneath.flush()


def draws(stream: TextIO) -> bool:
    """Whether it understands control codes."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def readable_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
