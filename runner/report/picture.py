"""The picture of lives: every tensor of the peak's step a band from birth to death, stacked.

`stacking` says what lies where; this puts it on the page, small, with the table of what is live at
the peak, which needs no script. drawing.js draws the bands, and figure.js lets the table follow the
pointer.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.etree.ElementTree import Element

from runner.allocations import GRADIENT, Allocations, Frame, Kind, Lives
from runner.foreign import printable
from runner.metrics import readable_bytes, readable_seconds
from runner.report import peak, stacking
from runner.report.markup import Node, tag
from runner.report.stacking import Stack
from runner.report.tables import exact_bytes

MOST_CELLS = 60
"""That a sweep's page can show; they are those with the highest peaks."""
_ROWS = 40
"""Of the table beside it; figure.js has the same number."""


@dataclass(frozen=True)
class Told:
    """A run's lives under the name that the reader knows it by."""

    name: str
    lives: Lives
    frames: Sequence[Frame]
    peak_bytes: int
    why: str = ""
    """There is no line where there is none."""

    @staticmethod
    def of(name: str, allocations: Allocations | None) -> Told | None:
        """`None` where the record has no lives, as older ones don't."""
        if not allocations or not allocations.lives:
            return None
        whys = {line.why for line in allocations.lines if line.file is None and line.why}
        return Told(
            name,
            allocations.lives,
            allocations.frames,
            allocations.total_bytes,
            whys.pop() if len(whys) == 1 else "",
        )

    @cached_property
    def stack(self) -> Stack:
        return stacking.stack(self.lives)


def picture(told: Told) -> Element:
    """Of one run."""
    return _whole([told], [0])


def pair(cells: Sequence[Told]) -> Element:
    """Two of these side by side, at first those that differ most in their peak."""
    shown = sorted(sorted(cells, key=lambda told: -told.peak_bytes)[:MOST_CELLS], key=cells.index)
    sizes = [told.peak_bytes for told in shown]
    chosen = sorted({sizes.index(min(sizes)), sizes.index(max(sizes))}) if len(shown) > 1 else [0]
    return _whole(shown, chosen if len(chosen) == 2 or len(shown) < 2 else [0, 1])


def _whole(cells: Sequence[Told], chosen: Sequence[int]) -> Element:
    depth = stacking.layer_depth([told.stack for told in cells])
    return tag(
        "div",
        tag("div", class_="lives-controls", hidden=True),
        tag(
            "div",
            (_figure(cells, number) for number in chosen),
            class_="lives-figures" if len(chosen) == 1 else "lives-figures two",
        ),
        tag("div", class_="legend lives-legend", hidden=True),
        tag("p", _how(cells), class_="note"),
        (
            tag("i", hidden=True, class_="told", data_name=told.name, data_lives=packed(told))
            for told in cells
        ),
        class_="lives",
        data_depth=depth,
    )


def _how(cells: Sequence[Told]) -> str:
    if len(cells) == 1:
        lives = cells[0].lives
        tensors = sum(band.tensors for band in lives.bands)
        words = f"{tensors:,} tensors in {len(lives.bands):,} bands"
        rest = f", {lives.rest_count:,} that were small or short-lived as one" * bool(
            lives.rest_count
        )
        return (
            f"{words}{rest}: those that came and went together are one. The upper edge is the "
            "exact curve of live bytes; where the screen has less room than there are events, it "
            f"shows the highest. {_FREED}{_blocks(cells)}"
        )
    return (
        "Bytes on one scale, each as wide as its own step; the smallest and shortest lives of a "
        f"cell are one band. The upper edge is the exact curve of live bytes. {_FREED}"
        f"{_blocks(cells)}"
    )


_FREED = (
    "When a tensor is freed is measured, the line that lets it go is not known: what was made just "
    "before and just after is named instead."
)


def _blocks(cells: Sequence[Told]) -> str:
    """Of what XLA allocates whole, what its bands show."""
    if not any(kind.block_bytes for told in cells for kind in told.lives.kinds):
        return ""
    return (
        " XLA takes one block for all that a compiled function needs and gives it back whole: "
        "its bands are the buffers in it when it is at its fullest, each as long as the block."
    )


def _figure(cells: Sequence[Told], number: int) -> Element:
    told = cells[number]
    select = tag(
        "select",
        (tag("option", each.name, value=at, selected=at == number)
         for at, each in enumerate(cells)),
        hidden=True, aria_label="cell",
    )  # fmt: skip
    return tag(
        "div",
        tag("h3", told.name) if len(cells) > 1 else None,
        select if len(cells) > 1 else None,
        tag(
            "div",
            tag(
                "canvas", tabindex=0, role="img",
                aria_label=f"Live tensors of {told.name}, as bands over time. Arrow keys left and "
                "right go from event to event, up and down from band to band, Enter keeps a band, "
                "plus and minus zoom, Escape shows the whole step again. "
                "The table says what is live.",
            ),
            tag("canvas", aria_hidden="true", class_="over"),
            class_="lives-plot",
            hidden=True,
        ),
        tag("div", class_="lives-tensor", aria_live="polite", hidden=True),
        _table(told),
        class_="lives-figure",
        data_cell=number,
    )  # fmt: skip


def _table(told: Told) -> Element:
    """What is live at the peak, largest first."""
    stack = told.stack
    live = sorted(
        (placed.band for placed, _ in stack.at(stack.peak)), key=lambda band: -band.bytes
    )  # fmt: skip
    rows: list[Node] = []
    for band in live[:_ROWS]:
        kind = told.lives.kinds[band.kind]
        count = f"{band.tensors:,} × " if band.tensors > 1 else ""
        rows.append(
            _row(f"{count}{_tensor(kind)}", band.bytes, _place(kind, told.frames))
        )  # fmt: skip
    left = sum(band.tensors for band in live[_ROWS:])
    size = sum(band.bytes for band in live[_ROWS:]) + stack.rest[stack.peak]
    if left or size:
        words = f"{left:,} smaller" if left else "smaller and shorter-lived"
        rows.append(_row(words, size, ""))
    when = readable_seconds(stack.events[stack.peak] - stack.events[0])
    level = stack.levels()[stack.peak]
    words = f"{readable_bytes(level)} ({exact_bytes(level)}) live at {when}, the peak"
    heads = [tag("th", text, scope="col", class_="figure" if text == "bytes" else None)
             for text in ("tensor", "bytes", "line")]  # fmt: skip
    return tag(
        "div",
        tag(
            "table",
            tag("caption", words, aria_live="polite"),
            tag("thead", tag("tr", heads)),
            tag("tbody", rows),
        ),
        class_="frame lives-table",
        tabindex=0,
        role="region",
        aria_label="what is live at a moment of the step",
    )


def _row(tensor: str, size: int, line: str) -> Element:
    return tag(
        "tr",
        tag("th", tensor, scope="row"),
        tag("td", readable_bytes(size), class_="figure", title=f"{size:,} bytes"),
        tag("td", line.rpartition("/")[2], title=line or None),
    )


def _tensor(kind: Kind) -> str:
    shaped = "" if kind.shape is None else f" {peak.shape(kind.shape)}"
    return f"{kind.op or 'unknown'}{shaped}"


def _place(kind: Kind, frames: Sequence[Frame]) -> str:
    if not kind.stack:
        return "no line"
    frame = frames[kind.stack[-1]]
    return f"{frame.file}:{frame.line}"


def packed(told: Told) -> str:
    """All that drawing.js draws, as JSON, deflated, in base64: small, and no markup whatever the
    names in it are. Columns hold a value a band, from the lowest to the highest; what goes
    up or down step by step is written as its changes."""
    stack, kinds = told.stack, told.lives.kinds
    begin = stack.events[0]
    moments = [round((time - begin) * 1e9) for time in stack.events]
    used = {number: at for at, number in enumerate(dict.fromkeys(
        number for kind in kinds for number in kind.stack))}  # fmt: skip
    parts = [kind for kind, _ in peak.PARTS.values()]
    data: dict[str, Any] = {
        "times": _changes(moments),
        "end": round((told.lives.end_seconds - begin) * 1e9),
        "peak": stack.peak,
        "born": _changes([born for _, born, _ in stack.bands]),
        "died": _changes([died for _, _, died in stack.bands]),
        "kind": [band.kind for band, _, _ in stack.bands],
        "part": [parts.index(band.part) for band, _, _ in stack.bands],
        "tensors": [band.tensors for band, _, _ in stack.bands],
        "bytes": [band.bytes for band, _, _ in stack.bands],
        "rest": _changes(stack.rest) if any(stack.rest) else [],
        "restCount": told.lives.rest_count,
        "kinds": [
            {
                "tensor": printable(_tensor(kind)),
                "op": printable(kind.op or "unknown"),
                "dtype": printable(kind.dtype),
                "scope": [printable(part) for part in kind.scope.split("/") if part != GRADIENT],
                "gradient": kind.scope.endswith(GRADIENT),
                "stack": [used[number] for number in kind.stack],
                "block": kind.block_bytes,
            }
            for kind in kinds
        ],
        "frames": [
            [printable(str(value)) for value in told.frames[number]] for number in used
        ],
        "parts": list(peak.PARTS.values()),
        "why": printable(told.why),
    }  # fmt: skip
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _changes(values: Sequence[int]) -> list[int]:
    return [value - before for value, before in zip(values, (0, *values[:-1]), strict=True)]
