"""HTML that can't be broken by what is written into it: elements, and a page that holds itself.

Elements are the standard library's, so every text and attribute is escaped when the page is written
out, and there is no way to put in markup as text. The page names no address and its own policy
forbids it to load any: style and script are in it, and no other script can run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from runner.sanitize import make_printable

Node = Element | str | None
Attribute = str | int | float | bool | None

_HERE = Path(__file__).parent
_STYLES = ("plot.css", "page.css", "lives.css")
_SVG_STYLES = ("plot.css", "svg.css")
_SCRIPTS = ("page.js", "lives_data.js", "drawing.js", "figure.js", "lives.js")


def tag(name: str, /, *children: Node | Iterable[Node], **attributes: Attribute) -> Element:
    """Return an element; `tag("p.note.wide", ...)` is a `<p class="note wide">`.

    `class_` is written `class` and `data_value` `data-value`; `None` and `False` leave an attribute
    or a child out, `True` is an attribute without a value.
    """
    name, *classes = name.split(".")
    element = Element(name, {"class": " ".join(classes)} if classes else {})
    for key, value in attributes.items():
        if value is not None and value is not False:
            written = "" if value is True else make_printable(str(value))
            element.set(key.rstrip("_").replace("_", "-"), written)
    for child in children:
        for node in (child,) if isinstance(child, str | Element) or child is None else child:
            if isinstance(node, Element):
                element.append(node)
            elif node and len(element):
                element[-1].tail = (element[-1].tail or "") + make_printable(node)
            elif node:
                element.text = (element.text or "") + make_printable(node)
    return element


def write_element(element: Element) -> str:
    return ElementTree.tostring(element, encoding="unicode", method="html")


def write_document(title: str, *body: Node | Iterable[Node]) -> str:
    script = _read(_SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", _read(_STYLES)),
    )
    root = tag("html", head, tag("body", tag("main", *body), tag("script", script)), lang="en")
    return f"<!doctype html>\n{write_element(root)}\n"


def draw_sections(sections: Iterable[tuple[str, Iterable[Node]]]) -> Iterator[Element]:
    """Draw each section under its title, unless there is nothing in it."""
    for title, content in sections:
        if nodes := list(content):
            yield tag("section", tag("h2", title), nodes)


def write_svg(content: Sequence[Node], width: int, height: int) -> str:
    """Return a picture that is a file of its own."""
    box, style = f"0 0 {width} {height}", tag("style", _read(_SVG_STYLES))
    root = tag("svg", style, *content, viewBox=box, width=width, height=height)
    root.set("xmlns", "http://www.w3.org/2000/svg")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _read(names: Sequence[str]) -> str:
    return "".join((_HERE / name).read_text() for name in names)
