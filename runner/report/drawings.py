"""Pictures of a run as PNG, for the tracking store: what its peak is made of, live bytes over time.

Drawn by matplotlib without its window machinery: importing this module takes 0.4 s, a picture
0.15 s. So no run waits for it: it belongs in the background process that publishes a record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from runner.allocation_views import label
from runner.metrics import readable_bytes
from runner.records import Record
from runner.report import peak
from runner.report.charts import Scale, from_zero

PEAK_FILE = "peak.png"
TIMELINE_FILE = "timeline.png"

_MOST_GROUPS = 12
_TEXT, _MUTED, _RULE = "#1a1d21", "#5a626d", "#d9dde3"
_LOOKS = {
    "held": ("#0072b2", ""),
    "kept": ("#c75200", "|||"),
    "gradient": ("#9a4f80", "\\\\\\"),
    "passing": ("#00805d", "///"),
    "unknown": ("#6f7782", ""),
}
"""Those of page.css in its light scheme: a colour and a pattern each."""


def draw(record: Record, folder: Path) -> list[Path]:
    """Both pictures, as far as the record has what they show."""
    allocations = record.allocations
    if not allocations or not allocations["groups"]:
        return []
    spec = record.spec
    title = f"{spec['scenario']} · {spec['execution']} · batch {spec['batch_size']}"
    drawn = [_keep(_peak(allocations, title), folder / PEAK_FILE)]
    if (allocations.get("curve") or {}).get("seconds"):
        drawn.append(_keep(_timeline(allocations, title), folder / TIMELINE_FILE))
    return drawn


def _peak(allocations: Mapping[str, Any], title: str) -> Figure:
    """A bar a group, largest on top."""
    groups = allocations["groups"][:_MOST_GROUPS]
    rest = allocations["groups"][_MOST_GROUPS:]
    rows = [(label(group), group.get("split"), group["bytes"]) for group in groups]
    if rest:
        left = peak.together(rest)
        rows.append((f"{len(rest)} smaller groups", left["split"], left["bytes"]))
    figure = Figure(figsize=(9, 1.6 + 0.34 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    names: dict[str, None] = {}
    for row, (_, split, size) in enumerate(rows):
        end = 0.0
        for part in peak.parts(split, size):
            colour, hatch = _LOOKS[part.kind]
            first = part.kind not in names
            names.setdefault(part.kind)
            axes.barh(
                row, part.value, left=end, height=0.7, color=colour, hatch=hatch,
                edgecolor="white", linewidth=0, label=part.kind if first else None,
            )  # fmt: skip
            end += part.value
        share = peak.percent(size / allocations["total_bytes"])
        axes.annotate(
            f" {readable_bytes(size)}, {share}", (end, row), va="center", color=_TEXT, fontsize=9
        )
    axes.set_yticks(range(len(rows)), [_short(name) for name, _, _ in rows])
    axes.invert_yaxis()
    scale = from_zero([1.2 * max(size for _, _, size in rows)], readable_bytes)
    _ticks(axes, scale, across=True)
    total = readable_bytes(allocations["total_bytes"])
    axes.set_title(f"{_short(title)}\n{total} at the peak, {peak.moment(allocations)}", loc="left",
                   color=_TEXT, fontsize=11)  # fmt: skip
    axes.legend(loc="lower right", frameon=False)
    return figure


def _timeline(allocations: Mapping[str, Any], title: str) -> Figure:
    """Live bytes through the peak's step above, through the whole trial below."""
    curves = peak.curves(allocations)
    figure = Figure(figsize=(9, 3.1 * len(curves)), layout="constrained")
    for axes, curve in zip(_stacked(figure, len(curves)), curves, strict=True):
        y = from_zero([allocations["total_bytes"]], readable_bytes)
        xs = [curve.scale.place(x) for x, _ in curve.points]
        levels = [level for _, level in curve.points]
        axes.step(xs, levels, where="post", color=_LOOKS["held"][0], linewidth=1.2)
        axes.fill_between(xs, levels, step="post", color=_LOOKS["held"][0], alpha=0.16, linewidth=0)
        for number, band in enumerate(curve.bands):
            low, high = curve.scale.place(band.low), curve.scale.place(band.high)
            if number % 2:
                axes.axvspan(low, high, color=_MUTED, alpha=0.07, linewidth=0)
            axes.annotate(f" {band.name}", (low, y.high), va="top", color=_MUTED, fontsize=8)
        across, up = curve.scale.place(curve.highest[0]), curve.highest[1]
        axes.plot([across], [up], "o", color=_LOOKS["kept"][0], markersize=6)
        axes.annotate(
            f"peak {readable_bytes(up)}", (across, up), color=_TEXT, fontsize=9,
            xytext=(-8 if across > 0.6 else 8, 0), textcoords="offset points",
            ha="right" if across > 0.6 else "left", va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )  # fmt: skip
        _ticks(axes, curve.scale, across=True, unit=True)
        _ticks(axes, y, across=False)
        axes.set_xlabel(curve.x_name, color=_MUTED, fontsize=9)
        axes.set_title(f"{_short(title)}: live bytes, {curve.title[0].lower()}{curve.title[1:]}",
                       loc="left", color=_TEXT, fontsize=11)  # fmt: skip
    return figure


def _stacked(figure: Figure, count: int) -> Sequence[Axes]:
    return [figure.add_subplot(count, 1, number + 1) for number in range(count)]


def _ticks(axes: Axes, scale: Scale, *, across: bool, unit: bool = False) -> None:
    """The same ticks as on the page. `unit`: values were placed between 0 and 1 already."""
    ticks = scale.ticks()
    low, high = (0.0, 1.0) if unit else (getattr(scale, "low", 0.0), getattr(scale, "high", 1.0))
    places = [low + place * (high - low) for place, _ in ticks]
    axis = axes.xaxis if across else axes.yaxis
    (axes.set_xlim if across else axes.set_ylim)(low, high)
    axis.set_ticks(places, [text for _, text in ticks])
    axes.tick_params(colors=_MUTED, labelsize=9, length=3)
    axes.set_axisbelow(True)
    axes.grid(True, axis="x" if across else "y", color=_RULE, linewidth=0.8)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_MUTED)


def _short(text: str) -> str:
    """Never longer than a picture is wide; and a `$` is no formula."""
    return (text if len(text) <= 60 else f"{text[:57]}...").replace("$", r"\$")


def _keep(figure: Figure, path: Path) -> Path:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    FigureCanvasAgg(figure)
    figure.savefig(scratch, format="png", dpi=110)
    scratch.replace(path)
    return path
