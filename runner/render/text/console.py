"""The terminal: what may be written to it, in colour or in place.

The front door puts a `Screen` in the place of both streams, so that nothing that somebody else
wrote, in a record, a name or an exception, can move the cursor, colour the text or stop a line from
being printed. Codes of our own pass by a mark that is drawn anew in each process.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from runner.sanitize import make_printable

if TYPE_CHECKING:
    from rich.console import RenderableType

_ESCAPE = chr(0xF0000 + secrets.randbelow(0xFFFE))
"""A private character that stands for our own escape codes until a screen writes them."""


class Screen:
    """A stream that shows what is printable, and whatever its encoding lacks as `\\xNN`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]

    def write(self, text: str) -> int:
        self.stream.write(make_printable(text).replace(_ESCAPE, "\x1b"))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def sanitize_streams() -> Iterator[None]:
    """Put a screen in the place of stdout and stderr meanwhile."""
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, Screen(stream)) for stream in kept)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = kept


def render_rich(renderable: RenderableType, stream: TextIO, least_width: int = 0) -> str:
    """Return what rich makes of it: as wide as the terminal, and plain where the stream is none or
    colours are declined (NO_COLOR). The text must be printable."""
    from rich.console import Console  # a tenth of a second, which a refusal need not take

    is_terminal = understands_codes(stream)
    console = Console(
        file=io.StringIO(),
        force_terminal=is_terminal,
        color_system="standard" if is_terminal and "NO_COLOR" not in os.environ else None,
        width=max(least_width, shutil.get_terminal_size().columns) if is_terminal else 100_000,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(renderable, end="")
    text = cast(io.StringIO, console.file).getvalue()
    return text.replace("\x1b", _ESCAPE) if isinstance(stream, Screen) else text


def style_text(text: str, style: str, stream: TextIO) -> str:
    """Return `text` in a style of rich, such as `bold`, where a person looks on and has not
    declined it (NO_COLOR)."""
    if not understands_codes(stream):
        return text
    from rich.text import Text

    return render_rich(Text(make_printable(text), style, no_wrap=True), stream, least_width=100_000)


def redraw_line(text: str, stream: TextIO) -> None:
    """Put a line where the last one stood, or only take that away; on a terminal alone."""
    if not understands_codes(stream):
        return
    from rich.text import Text

    line = Text(make_printable(text))
    line.truncate(shutil.get_terminal_size().columns - 1)
    # Written beneath the screen, which takes a carriage return for somebody else's.
    beneath = stream.stream if isinstance(stream, Screen) else stream
    beneath.write(f"\r\x1b[K{line.plain}")
    beneath.flush()


def understands_codes(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that understands control codes."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"
