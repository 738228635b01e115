"""A table as plain text: words to the left, figures to the right."""

from __future__ import annotations

from collections.abc import Container, Sequence


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def aligned(rows: Sequence[Sequence[str]], figures: Container[int]) -> list[str]:
    """A line a row; `figures` are the columns that are set to the right."""
    wide = widths(rows)
    return [
        "  ".join(
            text.rjust(width) if number in figures else text.ljust(width)
            for number, (text, width) in enumerate(zip(row, wide, strict=True))
        ).rstrip()
        for row in rows
    ]
