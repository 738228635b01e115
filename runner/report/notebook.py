"""A record as a notebook shows it: a short page in a frame of its own, so that neither's style
touches the other's; and as text where a viewer takes frames away.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from runner.allocations import Allocations
from runner.allocations import Line as Made
from runner.metrics import readable_bytes
from runner.records import Record
from runner.report import peak, picture, run_page
from runner.report.charts import Bar, bars
from runner.report.markup import Node, page, tag
from runner.report.tables import exact_bytes

MOST_LINES = 8
_HEIGHT = 640
_FIT = (
    "const page=this.contentDocument;new ResizeObserver(()=>"
    "this.style.height=page.documentElement.offsetHeight+'px').observe(page.body)"
)
"""The frame is as high as what is in it, where a viewer lets it find out."""


def frame(record: Record, text: str) -> str:
    """An element to put into somebody else's page."""
    shown = tag(
        "div",
        tag(
            "iframe",
            srcdoc=short(record),
            onload=_FIT,
            title=run_page.title(record),
            style=f"width:100%;height:{_HEIGHT}px;border:0",
        ),
        tag("details", tag("summary", "As text"), tag("pre", text)),
    )
    return ElementTree.tostring(shown, encoding="unicode", method="html")


def short(record: Record) -> str:
    """What came out, what the peak is made of by line, and the lives of its tensors."""
    title = run_page.title(record)
    return page(title, tag("header", tag("h1", title), *run_page.head(record)), *_peak(record))


def _peak(record: Record) -> Iterator[Node]:
    found = record.allocations
    if not found or not found.groups:
        return
    if found.lines:
        yield tag("section", tag("h2", "By line of code"), *_lines(found))
    if told := picture.Told.of("this run", found):
        name = "phase" if found.step is None else "step"
        yield tag("section", tag("h2", f"Every tensor of the peak's {name}"), picture.picture(told))


def _lines(found: Allocations) -> Iterator[Element]:
    """A bar a line, largest first; the smaller ones are one."""
    shown, rest = found.lines[:MOST_LINES], found.lines[MOST_LINES:]
    rows = [_bar(line) for line in shown]
    if rest:
        size = sum(line.bytes for line in rest)
        rows.append(Bar(f"{len(rest)} smaller lines", peak.parts(None, size), readable_bytes(size)))
    yield peak.kinds_legend([line.split for line in found.lines])
    yield bars(rows)


def _bar(line: Made) -> Bar:
    name = f"{line.file}:{line.line}" if line.file else "no line"
    words = f"{line.code or line.why or ''} · {exact_bytes(line.bytes)}"
    return Bar(name, peak.parts(line.split, line.bytes), readable_bytes(line.bytes), words)
