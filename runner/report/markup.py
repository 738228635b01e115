"""HTML that can't be broken by what is written into it: elements, and a page that holds itself.

Elements are the standard library's, so every text and attribute is escaped when the page is written
out, and there is no way to put in markup as text. The page names no address and its own policy
forbids it to load any: style and script are in it, and no other script can run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from runner.foreign import printable

Node = Element | str | None
Attribute = str | int | float | bool | None

_HERE = Path(__file__).parent
_STYLES = ("page.css", "picture.css")
_SCRIPTS = ("page.js", "lives.js", "drawing.js", "figure.js", "picture.js")


def tag(name: str, /, *children: Node | Iterable[Node], **attributes: Attribute) -> Element:
    """An element. `class_` is written `class` and `data_value` `data-value`; `None` and `False`
    leave an attribute or a child out, `True` is an attribute without a value."""
    element = Element(name)
    for key, value in attributes.items():
        if value is not None and value is not False:
            written = "" if value is True else printable(str(value))
            element.set(key.rstrip("_").replace("_", "-"), written)
    for child in children:
        for node in (child,) if isinstance(child, str | Element) or child is None else child:
            _append(element, node)
    return element


def _append(element: Element, node: Node) -> None:
    if isinstance(node, Element):
        element.append(node)
    elif node:
        last = element[-1] if len(element) else None
        if last is None:
            element.text = (element.text or "") + printable(node)
        else:
            last.tail = (last.tail or "") + printable(node)


def page(title: str, *body: Node | Iterable[Node]) -> str:
    """A whole document."""
    style, script = (
        "".join((_HERE / name).read_text() for name in names) for names in (_STYLES, _SCRIPTS)
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    root = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", title),
            tag("style", style),
        ),
        tag("body", tag("main", *body), tag("script", script)),
        lang="en",
    )
    text = ElementTree.tostring(root, encoding="unicode", method="html")
    return f"<!doctype html>\n{text}\n"
