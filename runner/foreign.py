"""Text that somebody else wrote, made fit to be shown: the one place for every view.

Core: standard library only. A reason, a name, a record's word or an exception's text may hold what
moves a terminal's cursor, turns a line around, closes a fence of Markdown or can't be encoded at
all. Records keep it as it was; a view passes it through here.

    the terminal      every stream that is printed to (`terminal.console.Screen`)
    HTML, pictures    every text and attribute (`report.markup`, `report.drawings`)
    MLflow            tags (`printable`) and its note (`in_markdown`, `span`, `fenced`)
"""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tab and line feed
    "\u2028-\u202e\u2066-\u2069"  # ends of lines and turns of direction that nobody sees
    "\ud800-\udfff\ufffe\uffff]"  # no characters at all
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&-])")


def printable(text: str) -> str:
    """What no view may hold, a terminal's codes for instance, as one strange character each."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def in_markdown(text: str) -> str:
    """One line that Markdown shows as it stands: no link, no picture, no heading, no HTML."""
    return _MARKDOWN.sub(r"\\\1", " ".join(printable(text).split()))


def span(text: str) -> str:
    """One line of code in Markdown, whatever it holds."""
    line = " ".join(printable(text).split())
    ticks = "`" * (1 + _longest("`+", line))
    return f"{ticks} {line} {ticks}" if "`" in line else f"`{line}`"


def fenced(text: str, mark: str = "`", kind: str = "") -> str:
    """Lines of code in Markdown, in a fence that none of them can close."""
    fence = mark * max(3, 1 + _longest(f"{re.escape(mark)}+", text))
    return f"{fence}{kind}\n{printable(text)}\n{fence}"


def _longest(pattern: str, text: str) -> int:
    return max((len(each) for each in re.findall(pattern, text)), default=0)
