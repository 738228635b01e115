"""A peak by line of code, as a table: file and line, source text, bytes, share, of what, how many.

The words for a line and its tensors are the terminal's as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from runner.allocations import Allocations, Frame, Line, Part
from runner.metrics import readable_bytes
from runner.report.markup import Node, tag
from runner.report.peak import parts, percent, shape, split_words
from runner.report.tables import Cell, Head, exact_bytes, table

MOST_LINES = 20
LEAST_SHARE = 0.0005
"""Of a line that has a row; the smaller ones are one row."""
MOST_TENSORS = 3
_MOST_CALLERS = 3


def place(line: Line) -> str:
    """`train.py:12`; of a library's line, that no line of the user's led there."""
    if line.file is None:
        return "no line"
    library = " (library; no line of yours)" if line.is_library else ""
    return f"{line.file}:{line.line}{library}"


def tensors(line: Line, most: int = MOST_TENSORS) -> str:
    """`14 Mul 512 x 256 float32, 2 MatMul 3 x 3 float32 (gradient) and 4 more kinds`."""
    counts: dict[str, list[int]] = {}
    for part in line.parts:
        found = counts.setdefault(_kind(part), [0, 0])
        found[0] += part.count
        found[1] += part.bytes
    named = sorted(counts, key=lambda name: -counts[name][1])
    more = len(named) - most
    shown = ", ".join(f"{counts[name][0]:,} {name}" for name in named[:most])
    return f"{shown} and {more} more kinds" if more > 0 else shown


def _kind(part: Part) -> str:
    shaped = "" if part.shape is None else f" {shape(part.shape)} {part.dtype}"
    return f"{part.op}{shaped}{' (gradient)' if part.is_gradient else ''}"


def callers(line: Line, frames: Sequence[Frame], most: int = _MOST_CALLERS) -> str:
    """Where the line was called for the most of its bytes, innermost first: `a.py:3, b.py:9`."""
    above = line.parts[0].stack[-2::-1] if line.parts else ()
    each = (f"{frames[number].file}:{frames[number].line}" for number in above)
    places = list(dict.fromkeys(each))  # a comprehension is a function on the line that it is in
    more = len(places) - most
    shown = ", ".join(places[:most])
    return f"{shown} and {more} more" if more > 0 else shown


def lines_table(allocations: Allocations, most: int = MOST_LINES) -> Element:
    """Largest first; its last row is the sum of what stands above it."""
    found, total = allocations.lines, allocations.total_bytes
    shown = [line for line in found[:most] if line.share >= LEAST_SHARE] or found[:most]
    largest = found[0].bytes or 1
    rows = [
        [
            Cell(_place(line, allocations.frames), wraps=True),
            *_figures(line.bytes, line.bytes / total),
            Cell(_of_which(line, largest)),
            Cell(f"{line.count:,}", value=line.count, figure=True),
            Cell(tensors(line), wraps=True),
        ]
        for line in shown
    ]
    if rest := found[len(shown) :]:
        rows.append([Cell(f"{len(rest)} smaller lines"), *_sum(rest, total)])
    last = [Cell("sum"), *_sum(found, total)]
    head = [
        *(Head("line"), Head("bytes", figure=True), Head("share", figure=True)),
        *(Head("of which"), Head("count", figure=True), Head("tensors, most bytes first")),
    ]
    label = "what was live at the peak, by line of code"
    return tag("div", table(head, rows, total=last, sortable=True, label=label), class_="lines")


def _sum(found: Sequence[Line], total: int) -> list[Cell]:
    size, count = sum(line.bytes for line in found), sum(line.count for line in found)
    figures = _figures(size, size / total if total else 1.0)
    return [*figures, Cell(""), Cell(f"{count:,}", value=count, figure=True), Cell("")]


def _figures(size: int, share: float) -> tuple[Cell, Cell]:
    return (
        Cell(readable_bytes(size), exact_bytes(size), size, figure=True),
        Cell(percent(share), value=share, figure=True),
    )


def _place(line: Line, frames: Sequence[Frame]) -> Element:
    """File and line, the source text, and in small print where it was called."""
    said: list[Node] = [tag("b", place(line))]
    if line.code or line.why:
        said.append(tag("code", line.code) if line.code else tag("small", line.why))
    if above := callers(line, frames):
        said.append(tag("small", f"called at {above}"))
    return tag("div", said, class_="place")


def _of_which(line: Line, largest: int) -> Element:
    """A bar, and the same in words."""
    bar = tag(
        "span",
        (
            tag("i", class_=part.kind, style=f"width:{100 * part.value / largest:.2f}%")
            for part in parts(line.split, line.bytes)
        ),
        class_="track small",
        aria_hidden="true",
    )
    return tag("div", bar, tag("small", split_words(line.split)), class_="which")
