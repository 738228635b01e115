"""Tables as people read them: rounded with a unit, the exact value a switch (or a pointer) away.

A heading is a button that sorts; without the script, and on paper, it is a heading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from xml.etree.ElementTree import Element

from runner.metrics import METRICS, readable
from runner.records import Record
from runner.report.markup import Node, tag


@dataclass(frozen=True)
class Cell:
    """What is read; what it is exactly, where that says more; what it is sorted by."""

    shown: Node
    exact: str = ""
    value: float | None = None
    remark: str = ""
    """Why it is as it is: why there is no figure, say."""
    figure: bool = False
    """Set to the right."""
    wraps: bool = False
    """Words, on as many lines as they need."""


@dataclass(frozen=True)
class Head:
    text: str
    meaning: str = ""
    figure: bool = False


def table(
    head: Sequence[Head],
    rows: Sequence[Sequence[Cell]],
    *,
    label: str,
    total: Sequence[Cell] = (),
    sortable: bool = False,
) -> Element:
    """In a frame of its own that scrolls sideways where the page is too narrow. A column in which
    no row says anything is left out."""
    says = [
        number == 0 or not rows or any(_says(row[number]) for row in rows)
        for number in range(len(head))
    ]
    head = list(compress(head, says))
    rows = [list(compress(row, says)) for row in rows]
    total = list(compress(total, says))
    exact = any(cell.exact for row in rows for cell in row)
    titles = tag(
        "tr",
        (
            tag(
                "th",
                tag("button", each.text, type="button") if sortable else each.text,
                scope="col",
                title=each.meaning or None,
                class_="figure" if each.figure else None,
            )
            for each in head
        ),
    )
    switch = tag("label", tag("input", type="checkbox"), "exact values", class_="switch")
    frame = tag(
        "div",
        tag(
            "table",
            tag("thead", titles),
            tag("tbody", (_row(row) for row in rows)),
            tag("tfoot", _row(total)) if total else None,
            class_="sortable" if sortable else None,
        ),
        class_="frame",
        tabindex=0,
        role="region",
        aria_label=label,
    )
    return tag("div", switch if exact else None, frame, class_="table")


def _says(cell: Cell) -> bool:
    return isinstance(cell.shown, Element) or bool(cell.shown)


def _row(cells: Sequence[Cell]) -> Element:
    return tag("tr", (_cell(cell, "td" if number else "th") for number, cell in enumerate(cells)))


def _cell(cell: Cell, name: str) -> Element:
    content: list[Node] = [cell.shown]
    if cell.exact:
        shown = tag("span", cell.shown, class_="rounded")
        content = [shown, tag("span", cell.exact, class_="exact")]
    return tag(
        name,
        content,
        scope="row" if name == "th" else None,
        class_="figure" if cell.figure else "wraps" if cell.wraps else None,
        title=cell.remark or cell.exact or None,
        data_value=cell.value,
    )


def exactly(name: str, value: float) -> str:
    """A metric's value with every digit that it has."""
    unit = METRICS[name].unit
    if unit in ("bytes", "bytes/step"):
        return f"{value:,.15g} {unit}"
    if unit in ("seconds", "per second"):
        return f"{value:.9g}{' s' if unit == 'seconds' else '/s'}"
    return f"{value:,.15g}"


def times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def exact_bytes(value: float) -> str:
    return f"{value:,.0f} bytes"


def between(name: str, interval: tuple[float, float]) -> str:
    return f"{readable(name, interval[0])} to {readable(name, interval[1])}"


def metric_cell(record: Record, name: str) -> Cell:
    """A metric of a record; why it is unknown, or nothing where it does not apply."""
    value = record.metrics.get(name)
    if value is None:
        why = record.unavailable.get(name, "")
        return Cell("–" if name in record.metrics else "", remark=why, figure=True)
    interval = record.intervals.get(name)
    remark = exactly(name, value)
    if interval and interval[0] != interval[1]:
        remark += f", {between(name, interval)}"
    return Cell(readable(name, value), exactly(name, value), value, remark, figure=True)


def metric_head(name: str) -> Head:
    metric = METRICS[name]
    return Head(metric.label, f"{name}: {metric.meaning}", figure=True)
