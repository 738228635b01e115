"""A table on a page: rounded figures with a unit, the exact ones a switch (or a pointer) away.

A heading is a button that sorts; without the script, and on paper, it is a heading.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from runner.render.html.elements import tag
from runner.render.tables import Column, Table, TableCell


def draw_table(table: Table, label: str, is_sortable: bool = False) -> Element:
    """Draw a table in a frame of its own, which scrolls sideways where the page is too narrow."""
    heads = (
        tag(
            "th",
            tag("button", column.head, type="button") if is_sortable else column.head,
            scope="col",
            title=column.meaning or None,
            class_=_list_looks(column),
        )
        for column in table.columns
    )
    rows = [_draw_row(table.columns, cells) for cells in table.rows]
    foot = tag("tfoot", rows.pop()) if table.has_total else None
    drawn = tag(
        "table",
        tag("thead", tag("tr", heads)),
        tag("tbody", rows),
        foot,
        class_="sortable" if is_sortable else None,
    )
    has_exact = any(cell.exact for cells in table.rows for cell in cells)
    switch = tag("label.switch", tag("input", type="checkbox"), "exact values")
    frame = tag("div.frame", drawn, tabindex=0, role="region", aria_label=label)
    return tag("div.table", switch if has_exact else None, frame)


def _draw_row(columns: Sequence[Column[object]], cells: Sequence[TableCell]) -> Element:
    drawn = []
    for number, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        shown = cell.text if cell.drawn is None else cell.drawn
        exact = [tag("span.rounded", shown), tag("span.exact", cell.exact)] if cell.exact else shown
        looks = {
            "scope": None if number else "row",
            "class_": _list_looks(column),
            "title": cell.remark or cell.exact or None,
            "data_value": cell.value,
        }
        drawn.append(tag("td" if number else "th", exact, **looks))
    return tag("tr", drawn)


def _list_looks(column: Column[object]) -> str | None:
    kind = "figure" if column.is_figure else "wraps" if column.wraps else ""
    return " ".join(filter(None, (kind, column.look))) or None
