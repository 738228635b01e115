"""A table as text: words to the left, figures to the right."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence

from runner.render.tables import Table
from runner.render.text.console import render_rich
from runner.sanitize import make_printable

_GAP = 2
_LEAST_WORDS = 24
"""The last column is folded on a terminal, unless that leaves it less than this."""


def align_table(table: Table) -> list[str]:
    figures = [number for number, column in enumerate(table.columns) if column.is_figure]
    return align_columns(table.list_texts(), figures)


def align_columns(
    rows: Sequence[Sequence[str]],
    figures: Container[int] = (),
    widths: Sequence[int] = (),
    head_style: str = "",
    last_style: str = "",
) -> list[str]:
    """Return a line a row, and more where a terminal is too narrow for words in the last column.

    `figures` are the columns that are set to the right, `widths` the least widths of the first
    ones; the styles are those of the first row and of the last column.
    """
    from rich.cells import cell_len
    from rich.table import Table as RichTable
    from rich.text import Text

    columns = [[make_printable(text) for text in column] for column in zip(*rows, strict=True)]
    wide = [max(map(cell_len, column)) for column in columns]
    least = sum(wide[:-1]) + _GAP * (len(wide) - 1) + min(wide[-1], _LEAST_WORDS)
    table = RichTable.grid(padding=(0, _GAP, 0, 0))
    for number, _ in enumerate(columns):
        is_figure, is_last = number in figures, number == len(columns) - 1
        table.add_column(
            justify="right" if is_figure else "left",
            no_wrap=is_figure or not is_last,
            overflow="fold",
            min_width=widths[number] if number < len(widths) else None,
            style=last_style if is_last else None,
        )
    for number, row in enumerate(zip(*columns, strict=True)):
        table.add_row(*map(Text, row), style=None if number else head_style)
    return [line.rstrip() for line in render_rich(table, sys.stdout, least).splitlines()]
