"""Tables: columns that read rows into cells. The terminal, pages and Markdown draw the same one.

`text/table.py`, `html/tables.py` and `files/markdown.py` draw any table; a picture's columns are
listed once, where its words are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Generic, TypeVar
from xml.etree.ElementTree import Element

from runner.metrics import METRICS, format_bytes, format_metric, join_range
from runner.records import Record
from runner.render.words import (
    describe_interval,
    find_range,
    format_exact_bytes,
    format_exactly,
    format_figure,
    format_share,
)

Row = TypeVar("Row")


@dataclass(frozen=True)
class TableCell:
    """A rounded figure or words; with what they are exactly, where that says more."""

    text: str
    exact: str = ""
    value: float | None = None
    """The number by which rows are sorted."""
    remark: str = ""
    """An explanation, as of why there is no figure; a page shows it under the pointer."""
    drawn: Element | None = None
    """An element that a page shows in place of the text."""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A heading, and how to read a row's cell under it."""

    head: str
    read: Callable[[Row], TableCell | Element | str | None]
    meaning: str = ""
    is_figure: bool = False
    """Set to the right."""
    wraps: bool = False
    """Words, on as many lines as they need."""
    look: str = ""
    """A class of its cells on a page: `desk` and `phone` are seen only there."""


@dataclass(frozen=True)
class Table:
    """Columns as they are drawn, and the cells under them."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Sequence[TableCell]]
    has_total: bool = False
    """The last row is the sum of the others."""
    joined: int = 0
    """So many first columns are empty, as text, in a row that repeats the one above."""

    def list_texts(self) -> list[list[str]]:
        """Return the headings and the cells' texts, a list a row."""
        rows = [[column.head for column in self.columns]]
        before: list[str] = []
        for cells in self.rows:
            texts = [cell.text for cell in cells]
            names = texts[: self.joined]
            rows.append([""] * self.joined + texts[self.joined :] if names == before else texts)
            before = names
        return rows


def make_table(
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    total: Row | None = None,
    joined: int = 0,
) -> Table:
    """Return the table of these rows, without the columns in which no row says anything."""
    read = [[_make_cell(column.read(row)) for column in columns] for row in rows]
    kept = [
        number == 0 or not rows or any(cells[number].text or cells[number].drawn is not None
                                       for cells in read)
        for number in range(len(columns))
    ]  # fmt: skip
    if total is not None:
        read.append([_make_cell(column.read(total)) for column in columns])
    return Table(
        list(compress(columns, kept)),
        [list(compress(cells, kept)) for cells in read],
        total is not None,
        sum(kept[:joined]),
    )


def _make_cell(read: TableCell | Element | str | None) -> TableCell:
    if isinstance(read, TableCell):
        return read
    return TableCell("", drawn=read) if isinstance(read, Element) else TableCell(read or "")


def make_count_cell(count: float | None) -> TableCell:
    return TableCell("" if count is None else f"{count:,.10g}", value=count)


def make_bytes_cell(size: float) -> TableCell:
    return TableCell(format_bytes(size), format_exact_bytes(size), size)


def make_share_cell(share: float) -> TableCell:
    return TableCell(format_share(share), value=share)


def make_value_cell(name: str, value: float | None) -> TableCell:
    """Return the cell of a metric's value; an empty one where it is not known."""
    if value is None:
        return TableCell("")
    return TableCell(format_metric(name, value), format_exactly(name, value), value)


def make_metric_cell(record: Record, name: str) -> TableCell:
    """Return a record's figure; why it is unknown, or nothing where it does not apply."""
    value = record.metrics.get(name)
    if value is None:
        unknown = "–" if name in record.metrics else ""
        return TableCell(unknown, remark=record.unavailable.get(name, ""))
    low, high = find_range(record, name) or (value, value)
    exact = join_range(format_exactly(name, low), format_exactly(name, high))
    remark = ", ".join(filter(None, (exact, describe_interval(record, name))))
    return TableCell(format_figure(record, name), exact, value, remark)


def make_value_column(name: str, read: Callable[[Row], TableCell]) -> Column[Row]:
    metric = METRICS[name]
    return Column(metric.label, read, f"{name}: {metric.meaning}", is_figure=True)


def make_metric_column(name: str) -> Column[Record]:
    return make_value_column(name, lambda record: make_metric_cell(record, name))
