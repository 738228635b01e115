"""The figure of lives: every tensor of the peak's step a band from birth to death, stacked.

`lives_layout` says what lies where; this puts it on the page, small, with the table of what is live
at the peak, which needs no script. drawing.js draws the bands, and figure.js lets the table follow
the pointer.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.etree.ElementTree import Element

from runner.allocations import GRADIENT, Allocations, TensorKind
from runner.analysis.selection import CellGrid
from runner.metrics import format_bytes, format_seconds
from runner.render import peak
from runner.render.html import lives_layout
from runner.render.html.elements import tag
from runner.render.html.lives_layout import BandStack
from runner.render.words import count_things, format_exact_bytes
from runner.sanitize import make_printable

_ROWS = 40
"""The table beside the figure has so many rows; figure.js has the same number."""

_FREED = (
    "When a tensor is freed is measured, the line that lets it go is not known: what was made just "
    "before and just after is named instead."
)
_BLOCKS = (
    " XLA takes one block for all that a compiled function needs and gives it back whole: its "
    "bands are the buffers in it when it is at its fullest, each as long as the block."
)
_KEYS = (
    "as bands over time. Arrow keys left and right go from event to event, up and down from band "
    "to band, Enter keeps a band, plus and minus zoom, Escape shows the whole step again. The "
    "table says what is live."
)


@dataclass(frozen=True)
class CellLives:
    """A run's allocations, with lives, under the name that the reader knows it by."""

    name: str
    allocations: Allocations

    @cached_property
    def stack(self) -> BandStack:
        assert self.allocations.lives
        return lives_layout.stack_bands(self.allocations.lives)


def draw_lives(allocations: Allocations) -> Iterator[Element]:
    """Draw the lives of one run, where its record has them, as older ones don't."""
    if allocations.lives:
        yield _draw_cell(CellLives("this run", allocations))


def draw_highest_lives(grid: CellGrid) -> Iterator[Element]:
    """Draw the lives of a sweep's cell with the highest peak, under its name."""
    cells = [
        CellLives(grid.label(record), record.allocations)
        for record in grid.records
        if record.allocations and record.allocations.lives
    ]
    if cells:
        highest = max(cells, key=lambda cell: cell.allocations.total_bytes)
        yield tag("h3", highest.name)
        yield _draw_cell(highest)


def _draw_cell(cell: CellLives) -> Element:
    return tag(
        "div.lives",
        tag("div.lives-controls", hidden=True),
        _draw_figure(cell),
        tag("div.legend.lives-legend", hidden=True),
        tag("p.note", _explain(cell)),
        data_lives=pack_lives(cell),
        data_depth=lives_layout.find_layer_depth(cell.stack),
    )


def _explain(cell: CellLives) -> str:
    lives = cell.stack.lives
    tensors, rest = sum(band.tensors for band in lives.bands), lives.rest_count
    words = f"{count_things(tensors, 'tensor')} in {count_things(len(lives.bands), 'band')}"
    words += f", {rest:,} that were small or short-lived as one" if rest else ""
    blocks = _BLOCKS if any(kind.block_bytes for kind in lives.kinds) else ""
    return (
        f"{words}: those that came and went together are one. The upper edge is the exact curve of "
        "live bytes; where the screen has less room than there are events, it shows the highest. "
        f"{_FREED}{blocks}"
    )


def _draw_figure(cell: CellLives) -> Element:
    label = f"Live tensors of {cell.name}, {_KEYS}"
    plot = tag("canvas", tabindex=0, role="img", aria_label=label)
    return tag(
        "div.lives-figure",
        tag("div.lives-plot", plot, tag("canvas.over", aria_hidden="true"), hidden=True),
        tag("div.lives-tensor", aria_live="polite", hidden=True),
        _draw_table(cell),
    )


def _draw_table(cell: CellLives) -> Element:
    """Draw what is live at the peak, largest first; figure.js draws the same of other moments."""

    def draw_row(tensor: str, size: int, line: str) -> Element:
        figure = tag("td.figure", format_bytes(size), title=format_exact_bytes(size))
        place = tag("td", line.rpartition("/")[2], title=line or None)
        return tag("tr", tag("th", tensor, scope="row"), figure, place)

    stack = cell.stack
    live = [placed.band for placed, _ in stack.list_live(stack.peak)]
    live.sort(key=lambda band: -band.bytes)
    rows = []
    for band in live[:_ROWS]:
        kind = stack.lives.kinds[band.kind]
        many = f"{band.tensors:,} × " if band.tensors > 1 else ""
        frame = cell.allocations.frames[kind.stack[-1]] if kind.stack else None
        line = f"{frame.file}:{frame.line}" if frame else "no line"
        rows.append(draw_row(f"{many}{_name_tensor(kind)}", band.bytes, line))
    left = sum(band.tensors for band in live[_ROWS:])
    size = sum(band.bytes for band in live[_ROWS:]) + stack.rest[stack.peak]
    if left or size:
        smaller = f"{left:,} smaller" if left else "smaller and shorter-lived"
        rows.append(draw_row(smaller, size, ""))
    when = format_seconds(stack.events[stack.peak] - stack.events[0])
    level = stack.sum_levels()[stack.peak]
    words = f"{format_bytes(level)} ({format_exact_bytes(level)}) live at {when}, the peak"
    heads = (("th", "tensor"), ("th.figure", "bytes"), ("th", "line"))
    table = tag(
        "table",
        tag("caption", words, aria_live="polite"),
        tag("thead", tag("tr", (tag(head, name, scope="col") for head, name in heads))),
        tag("tbody", rows),
    )
    label = "what is live at a moment of the step"
    return tag("div.frame.lives-table", table, tabindex=0, role="region", aria_label=label)


def _name_tensor(kind: TensorKind) -> str:
    shaped = "" if kind.shape is None else f" {peak.describe_shape(kind.shape)}"
    return f"{peak.name_op_plainly(kind.op, is_gradient=True) or 'unknown'}{shaped}"


def pack_lives(cell: CellLives) -> str:
    """Return all that drawing.js draws, as JSON, deflated, in base64: small, and no markup whatever
    the names in it are. Columns hold a value a band, from the lowest to the highest; what goes up
    or down step by step is written as its changes."""
    stack, kinds = cell.stack, cell.stack.lives.kinds
    begin = stack.events[0]
    # Why there is no line where there is none.
    whys = {line.why for line in cell.allocations.lines if line.file is None and line.why}
    moments = [round((time - begin) * 1e9) for time in stack.events]
    frames = cell.allocations.frames
    used = {number: at for at, number in enumerate(dict.fromkeys(
        number for kind in kinds for number in kind.stack))}  # fmt: skip
    parts = [kind for kind, _ in peak.PARTS.values()]
    data: dict[str, Any] = {
        "times": _list_changes(moments),
        "end": round((stack.lives.end_seconds - begin) * 1e9),
        "peak": stack.peak,
        "born": _list_changes([born for _, born, _ in stack.bands]),
        "died": _list_changes([died for _, _, died in stack.bands]),
        "kind": [band.kind for band, _, _ in stack.bands],
        "part": [parts.index(band.part) for band, _, _ in stack.bands],
        "tensors": [band.tensors for band, _, _ in stack.bands],
        "bytes": [band.bytes for band, _, _ in stack.bands],
        "rest": _list_changes(stack.rest) if any(stack.rest) else [],
        "restCount": stack.lives.rest_count,
        "kinds": [
            {
                "tensor": make_printable(_name_tensor(kind)),
                "op": make_printable(peak.name_op_plainly(kind.op, is_gradient=True) or "unknown"),
                "dtype": make_printable(kind.dtype),
                "scope": [make_printable(part)
                          for part in kind.scope.split("/") if part != GRADIENT],
                "gradient": kind.scope.endswith(GRADIENT),
                "stack": [used[number] for number in kind.stack],
                "block": kind.block_bytes,
            }
            for kind in kinds
        ],
        "frames": [[make_printable(str(frame)) for frame in frames[number]] for number in used],
        "parts": list(peak.PARTS.values()),
        "why": make_printable(whys.pop() if len(whys) == 1 else ""),
    }  # fmt: skip
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _list_changes(values: Sequence[int]) -> list[int]:
    return [value - before for value, before in zip(values, (0, *values[:-1]), strict=True)]
