"""A page as a reader has it: its words, its tables, its elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Element:
    name: str
    attributes: Mapping[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All words below it, with one space between."""
        if self.name in ("script", "style"):
            return ""
        texts = (each if isinstance(each, str) else each.text for each in self.children)
        return " ".join(" ".join(texts).split())

    def all(self, name: str, **attributes: str) -> list[Element]:
        """The elements of a name below it; `class_` is one of its classes."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                wanted = child.name == name and all(
                    value in (child.attributes.get(key.rstrip("_")) or "").split()
                    for key, value in attributes.items()
                )
                found += [child] if wanted else []
                found += child.all(name, **attributes)
        return found

    def section(self, title: str) -> Element:
        """What stands under a heading."""
        for section in self.all("section"):
            if section.all("h2")[0].text == title:
                return section
        raise LookupError(title)

    def opened(self, summary: str) -> Element:
        """What opens under a summary that begins so."""
        for details in self.all("details"):
            if details.all("summary")[0].text.startswith(summary):
                return details
        raise LookupError(summary)

    def table(self) -> list[list[str]]:
        """The first table below it, as it is read: rounded."""
        rows = self.all("table")[0].all("tr")
        return [[_read(cell) for cell in row.children if isinstance(cell, Element)] for row in rows]


def _read(cell: Element) -> str:
    rounded = cell.all("span", class_="rounded")
    return rounded[0].text if rounded else cell.text


class _Parser(HTMLParser):
    VOID = ("meta", "input", "br", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        if tag not in self.VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().name == tag

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def parse_page(text: str) -> Element:
    """The page as a tree; every element must be closed."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert len(parser._open) == 1
    return parser.root
