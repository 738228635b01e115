"""The terminal: what may be written to it, and how durations are spelled there."""

from __future__ import annotations

import os
import shutil
from typing import TextIO


def styled(text: str, code: str, stream: TextIO) -> str:
    """`text` in bold or colour where a person looks on and has not declined (NO_COLOR)."""
    plain = not draws(stream) or "NO_COLOR" in os.environ
    return text if plain else f"\x1b[{code}m{text}\x1b[0m"


def draws(stream: TextIO) -> bool:
    """Whether it understands control codes."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def redraw(text: str, stream: TextIO) -> None:
    """Put the line in place; empty text takes it away. Nothing where no terminal is."""
    if draws(stream):
        stream.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
        stream.flush()


def readable_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
