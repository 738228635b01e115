"""A record as a notebook shows it: a short page in a frame of its own, so that neither's style
touches the other's; and as text where a viewer takes frames away.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from runner.judging import selection
from runner.records import Record
from runner.report import peak, picture, run_page
from runner.report.lines import lines_table
from runner.report.markup import Node, page, tag

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
            title=selection.title(record),
            style=f"width:100%;height:{_HEIGHT}px;border:0",
        ),
        tag("details", tag("summary", "As text"), tag("pre", text)),
    )
    return ElementTree.tostring(shown, encoding="unicode", method="html")


def short(record: Record) -> str:
    """What came out, what the peak is made of by line, and the lives of its tensors."""
    title = selection.title(record)
    return page(title, tag("header", tag("h1", title), *run_page.head(record)), *_peak(record))


def _peak(record: Record) -> Iterator[Node]:
    found = record.allocations
    if not found or not found.groups:
        return
    if found.lines:
        legend = peak.kinds_legend([line.split for line in found.lines])
        yield tag("section", tag("h2", "By line of code"), legend, lines_table(found))
    if told := picture.Told.of("this run", found):
        name = "phase" if found.step is None else "step"
        yield tag("section", tag("h2", f"Every tensor of the peak's {name}"), picture.picture(told))
