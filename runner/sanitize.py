"""Text that somebody else wrote, made fit to be shown: the one place for every view.

Core: standard library only. A reason, a name, a record's word or an exception's text may hold what
moves a terminal's cursor, turns a line around, closes a fence of Markdown or can't be encoded at
all. Records keep it as it was; a view passes it through here.

    the terminal      every stream that is printed to (`render.text.console.Screen`)
    HTML, pictures    every text and attribute (`render.html.elements`)
    tables            what a spreadsheet would take for a formula (`escape_csv`, `escape_markdown`)
    MLflow            tags (`make_printable`) and its note (`escape_markdown`,
                      `format_code_span`, `format_code_block`)
"""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tab and line feed
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # ends of lines, turns of direction: unseen
    "\ud800-\udfff\ufffe\uffff]"  # no characters at all
)
_AMOUNT = re.compile(r"[+-]?\d[\d.,]*(e[+-]?\d+)?( ?[A-Za-z%]+(/[a-z]+)?)?|-")
_BEGIN_FORMULAS = tuple("=+-@＝＋－＠")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&-])")


def make_printable(text: str) -> str:
    """Return the text with one strange character each for what no view may hold, a terminal's codes
    for instance."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would run a text: an amount with its sign is none."""
    shown = text.lstrip()
    return shown[:1] in _BEGIN_FORMULAS and not _AMOUNT.fullmatch(shown)


def escape_csv(text: str) -> str:
    """Return a text as a spreadsheet shows it and does not run it: with an apostrophe before it."""
    return f"'{make_printable(text)}" if is_formula(text) else make_printable(text)


def escape_markdown(text: str) -> str:
    """Return one line that Markdown shows as it stands: no link, no picture, no heading, no HTML;
    pasted into a spreadsheet no formula."""
    line = _MARKDOWN.sub(r"\\\1", " ".join(make_printable(text).split()))
    return f"\\{line}" if line[:1] in ("=", "@") else line


def format_code_span(text: str) -> str:
    """Return one line of code in Markdown, whatever it holds."""
    line = " ".join(make_printable(text).split())
    ticks = "`" * (1 + _find_longest("`+", line))
    return f"{ticks} {line} {ticks}" if "`" in line else f"`{line}`"


def format_code_block(text: str, mark: str = "`", kind: str = "") -> str:
    """Return lines of code in Markdown, in a fence that none of them can close."""
    fence = mark * max(3, 1 + _find_longest(f"{re.escape(mark)}+", text))
    return f"{fence}{kind}\n{make_printable(text)}\n{fence}"


def _find_longest(pattern: str, text: str) -> int:
    return max((len(run) for run in re.findall(pattern, text)), default=0)
