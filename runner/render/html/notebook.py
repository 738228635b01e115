"""A record as a notebook shows it: a short page in a frame of its own, so that neither's style
touches the other's; and as text where a viewer takes frames away.
"""

from __future__ import annotations

from runner.analysis import selection
from runner.records import Record
from runner.render.html import peak_sections, run_page
from runner.render.html.elements import draw_sections, tag, write_document, write_element
from runner.render.html.lives import draw_lives
from runner.render.peak import name_stretch

_FIT = (
    "const page=this.contentDocument;new ResizeObserver(()=>"
    "this.style.height=page.documentElement.offsetHeight+'px').observe(page.body)"
)
"""The frame is as high as what is in it, where a viewer lets it find out."""


def draw_frame(record: Record, text: str) -> str:
    """Return an element to put into somebody else's page."""
    title, style = selection.name_record(record), "width:100%;height:640px;border:0"
    frame = tag("iframe", srcdoc=draw_short_page(record), onload=_FIT, title=title, style=style)
    as_text = tag("details", tag("summary", "As text"), tag("pre", text))
    return write_element(tag("div", frame, as_text))


def draw_short_page(record: Record) -> str:
    """Return what came out, what the peak is made of by line, and the lives of its tensors."""
    title, allocations = selection.name_record(record), record.allocations
    sections = []
    if allocations and allocations.lines:
        legend = peak_sections.draw_parts_legend([line.split for line in allocations.lines])
        sections.append(("By line of code", [legend, peak_sections.draw_lines(allocations)]))
    if allocations and allocations.groups:
        name = f"Every tensor of the peak's {name_stretch(allocations)}"
        sections.append((name, list(draw_lives(allocations))))
    header = tag("header", tag("h1", title), run_page.draw_head(record))
    return write_document(title, header, draw_sections(sections))
