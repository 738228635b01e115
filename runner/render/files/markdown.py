"""Tables in Markdown, in which no text is a link, HTML or, pasted elsewhere, a formula."""

from __future__ import annotations

import re

from runner.render.tables import Table
from runner.sanitize import is_formula, make_printable


def write_table(table: Table) -> list[str]:
    head, *rows = [[_escape(text) for text in row] for row in table.list_texts()]
    rule = ["--:" if column.is_figure else ":--" for column in table.columns]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]


def _escape(text: str) -> str:
    line = re.sub(r"([|<>\[\]`*\\])", r"\\\1", " ".join(make_printable(text).split()))
    return f"\\{line}" if is_formula(text) else line
