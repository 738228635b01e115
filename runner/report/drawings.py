"""The pictures of the page as PNG, for the tracking store: of a run, and of a sweep.

Drawn by matplotlib without its window machinery: importing this module takes 0.4 s, a picture
0.15 s. So no run waits for it: it belongs in the background process that publishes a record.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from runner import places
from runner.allocations import Allocations
from runner.export.allocations import label
from runner.foreign import printable
from runner.judging import selection
from runner.judging.selection import Grid
from runner.metrics import readable_bytes, readable_seconds
from runner.records import Record
from runner.report import PEAK_PICTURE, peak
from runner.report.along import Along
from runner.report.charts import Bar, Dots, Part, Scale, fitting, from_zero
from runner.report.sweep_page import chart_rows, peak_bar, step_row, title_of

TIMELINE_FILE = "timeline.png"
PEAKS_FILE = "peaks.png"
STEPS_FILE = "steps.png"
ALONG_FILE = "peak_against_{}.png"

_MOST_GROUPS = 12
_MOST_ROWS = 48
_TEXT, _MUTED, _RULE = "#1a1d21", "#5a626d", "#d9dde3"
_LOOKS = {
    "held": ("#0072b2", ""),
    "kept": ("#c75200", "|||"),
    "gradient": ("#9a4f80", "\\\\\\"),
    "passing": ("#00805d", "///"),
    "unknown": ("#6f7782", ""),
}
"""Those of page.css in its light scheme: a colour and a pattern each."""

_COLOURS = ("#0072b2", "#c75200", "#00805d", "#9a4f80", "#7a6200", "#3d4b9e", "#b02a37", "#4f6b75")
_MARKS = ("o-", "s--", "^:", "D-.")


def draw_run(record: Record, folder: Path) -> list[Path]:
    """What its peak is made of, and live bytes over time, as far as the record has them."""
    allocations = record.allocations
    if not allocations or not allocations.groups:
        return []
    title = selection.title(record)
    drawn = [_keep(_peak(allocations, title), folder / PEAK_PICTURE)]
    if allocations.curve.seconds:
        drawn.append(_keep(_timeline(allocations, title), folder / TIMELINE_FILE))
    return drawn


def _peak(allocations: Allocations, title: str) -> Figure:
    """A bar a group, largest on top."""
    groups = allocations.groups[:_MOST_GROUPS]
    rest = allocations.groups[_MOST_GROUPS:]
    rows = [(label(group), group.split, group.bytes) for group in groups]
    if rest:
        left = peak.together(rest)
        rows.append((f"{len(rest)} smaller groups", left.split, left.bytes))
    figure = Figure(figsize=(9, 1.6 + 0.34 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for row, (_, split, size) in enumerate(rows):
        end = _stack(axes, row, peak.parts(split, size))
        share = peak.percent(size / allocations.total_bytes)
        _beside(axes, row, end, f"{readable_bytes(size)}, {share}")
    axes.set_yticks(range(len(rows)), [_short(name) for name, _, _ in rows])
    axes.invert_yaxis()
    scale = from_zero([1.2 * max(size for _, _, size in rows)], readable_bytes)
    _ticks(axes, scale, across=True)
    when = f"{readable_bytes(allocations.total_bytes)} at the peak, {peak.moment(allocations)}"
    axes.set_title(f"{_short(title)}\n{_short(when)}", loc="left",
                   color=_TEXT, fontsize=11)  # fmt: skip
    _name_parts(axes)
    return figure


def draw_sweep(records: Sequence[Record], folder: Path) -> list[Path]:
    """Peak by cell, time of a step by cell, peak along each number that was swept."""
    grid = Grid(records)
    drawn = [
        _keep(_peaks(grid), folder / PEAKS_FILE),
        _keep(_steps(grid), folder / STEPS_FILE),
    ]
    for axis in grid.axes():
        along = Along(grid, axis)
        if along.drawn:
            name = ALONG_FILE.format(re.sub(r"\W", "_", along.short))
            drawn.append(_keep(_along(along, title_of(grid)), folder / name))
    return drawn


def _peaks(grid: Grid) -> Figure:
    """A bar a cell, split as on the page."""
    rows = chart_rows(grid, peak_bar)[:_MOST_ROWS]
    figure, axes, places = _by_cell(grid, rows, "peak tensor memory")
    longest = max((sum(part.value for part in row.parts) for row in rows), default=0.0)
    for row, place in zip(rows, places, strict=True):
        end = _stack(axes, place, row.parts)
        _beside(axes, place, end, row.remark if row.missing else row.figure)
    _ticks(axes, from_zero([1.15 * longest], readable_bytes), across=True)
    _name_parts(axes)
    return figure


def _steps(grid: Grid) -> Figure:
    """A dot a cell, with its interval."""
    rows = chart_rows(grid, step_row)[:_MOST_ROWS]
    figure, axes, places = _by_cell(grid, rows, "time of a steady step, 95 % intervals")
    ends = [end for row in rows for dot in row.dots for end in (dot.value, *(dot.interval or ()))]
    scale = fitting(ends or [1.0], readable_seconds)
    for row, place in zip(rows, places, strict=True):
        for dot in row.dots:
            low, high = (scale.place(end) for end in dot.interval or (dot.value, dot.value))
            axes.plot([low, high], [place, place], "|-", color=_LOOKS["held"][0], markersize=8)
            axes.plot([scale.place(dot.value)], [place], "o", color=_LOOKS["held"][0])
            _beside(axes, place, high + 0.01, row.figure)
        if row.missing:
            _beside(axes, place, 0.0, row.remark)
    _ticks(axes, scale, across=True, unit=True)
    axes.set_xlim(0.0, 1.1)
    return figure


def _by_cell(
    grid: Grid, rows: Sequence[Bar] | Sequence[Dots], what: str
) -> tuple[Figure, Axes, list[float]]:
    """Axes with a row a cell, from the top, and room above each group for its heading."""
    places: list[float] = []
    headings: list[tuple[float, str]] = []
    place = 0.0
    for row in rows:
        if row.heading:
            headings.append((place + 0.3, row.heading))
            place += 1.0
        places.append(place)
        place += 1.0
    figure = Figure(figsize=(9, 1.4 + 0.27 * place), layout="constrained")
    axes = figure.add_subplot()
    axes.set_yticks(places, [_short(row.name) for row in rows])
    axes.set_ylim(place - 0.4, -0.6)
    for height, heading in headings:
        axes.text(
            0.0, height, _short(heading), transform=axes.get_yaxis_transform(), color=_MUTED,
            fontsize=9, va="center", ha="right",
        )  # fmt: skip
    axes.set_title(f"{_short(title_of(grid), 90)}\n{what}", loc="left", color=_TEXT, fontsize=11)
    return figure, axes, places


def _stack(axes: Axes, place: float, parts: Sequence[Part]) -> float:
    """A bar's parts, one beside the other; returns where it ends. Each kind has a label."""
    end = 0.0
    for part in parts:
        colour, hatch = _LOOKS[part.kind]
        axes.barh(
            place, part.value, left=end, height=0.7, color=colour, hatch=hatch,
            edgecolor="white", linewidth=0, label=part.kind,
        )  # fmt: skip
        end += part.value
    return end


def _beside(axes: Axes, place: float, end: float, text: str) -> None:
    axes.annotate(f" {_short(text)}", (end, place), va="center", color=_TEXT, fontsize=9)


def _name_parts(axes: Axes) -> None:
    """A legend in the order in which parts are stacked."""
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = [name for name in _LOOKS if name in handles]
    if names:
        axes.legend([handles[name] for name in names], names, loc="best", frameon=False)


def _along(along: Along, title: str) -> Figure:
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    x, y = along.scales()
    for number, track in enumerate(along.drawn):
        law = f": {track.law.words(along.short)}" if track.law else ""
        axes.plot(
            [x.place(size) for size, _ in track.points],
            [y.place(peak) for _, peak in track.points],
            _MARKS[number % len(_MARKS)],
            color=_COLOURS[number % len(_COLOURS)],
            markersize=10 - 1.5 * (number % len(_MARKS)),  # one on another leaves both to be seen
            label=_short(track.name) + law,
        )
    _ticks(axes, x, across=True, unit=True)
    _ticks(axes, y, across=False, unit=True)
    axes.set_xlabel(_short(along.axis), color=_MUTED, fontsize=9)
    axes.set_title(f"{_short(title, 90)}\npeak tensor memory", loc="left", color=_TEXT, fontsize=11)
    axes.legend(loc="best", frameon=False, fontsize=9)
    return figure


def _timeline(allocations: Allocations, title: str) -> Figure:
    """Live bytes through the peak's step above, through the whole trial below."""
    curves = peak.curves(allocations)
    figure = Figure(figsize=(9, 3.1 * len(curves)), layout="constrained")
    for axes, curve in zip(_stacked(figure, len(curves)), curves, strict=True):
        y = from_zero([allocations.total_bytes], readable_bytes)
        xs = [curve.scale.place(x) for x, _ in curve.points]
        levels = [level for _, level in curve.points]
        axes.step(xs, levels, where="post", color=_LOOKS["held"][0], linewidth=1.2)
        axes.fill_between(xs, levels, step="post", color=_LOOKS["held"][0], alpha=0.16, linewidth=0)
        for number, band in enumerate(curve.bands):
            low, high = curve.scale.place(band.low), curve.scale.place(band.high)
            if number % 2:
                axes.axvspan(low, high, color=_MUTED, alpha=0.07, linewidth=0)
            axes.annotate(
                f" {_short(band.name)}", (low, y.high), va="top", color=_MUTED, fontsize=8
            )
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
        axes.set_xlabel(_short(curve.x_name, 90), color=_MUTED, fontsize=9)
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


def _short(text: str, most: int = 60) -> str:
    """Never longer than a picture is wide; and a `$` is no formula."""
    text = printable(" ".join(text.split()))
    return (text if len(text) <= most else f"{text[: most - 3]}...").replace("$", r"\$")


def _keep(figure: Figure, path: Path) -> Path:
    FigureCanvasAgg(figure)
    with places.whole(path) as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a name in letters that the font lacks
        figure.savefig(scratch, format="png", dpi=110)
    return path
