"""The way to the limit as a picture: measured peaks, the model through them, the cap.

Drawn by matplotlib without its window machinery; importing this module takes 0.4 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from runner.fit.probes import Limit, spelled
from runner.metrics import readable_bytes

_COLOURS = ("#0072b2", "#c75200", "#00805d", "#9a4f80", "#6f7782", "#b58900", "#2f4b7c", "#a05195")
_MARKS = "osD^vPX*"
_TEXT, _RULE = "#1a1d21", "#d9dde3"


def draw(limits: Sequence[Limit], path: Path) -> None:
    """One line a strategy. A cross where a value ran out of memory, on the cap: how much it would
    have taken is not known."""
    figure = Figure(figsize=(9, 5 + 0.2 * len(limits)), layout="constrained")
    axes = figure.add_subplot()
    for number, limit in enumerate(limits):
        colour, mark = _COLOURS[number % len(_COLOURS)], _MARKS[number % len(_MARKS)]
        fitting = [probe for probe in limit.probes if probe.fits and probe.peak_bytes is not None]
        label = limit.strategy.name
        model, cap = limit.model, limit.strategy.cap_bytes
        values = [probe.value for probe in fitting]
        if model is not None:
            label = f"{label}: {spelled(model, limit.vary)}"
            along = np.linspace(0, max(values) * 1.05, 200)
            axes.plot(along, [model(value) for value in along], color=colour, linewidth=1.2)
        peaks = [probe.peak_bytes or 0 for probe in fitting]
        axes.plot(values, peaks, mark, color=colour, label=label)
        failing = [probe.value for probe in limit.probes if not probe.fits]
        if cap is not None:
            axes.plot(failing, [cap] * len(failing), "x", color=colour, markersize=9)
        if limit.largest is not None:
            axes.axvline(limit.largest, color=colour, linewidth=0.8, linestyle=":")
    for cap in sorted({limit.strategy.cap_bytes or 0 for limit in limits} - {0}):
        axes.axhline(cap, color=_TEXT, linewidth=1)
        axes.annotate(f"cap {readable_bytes(cap)}", (0, cap), va="bottom", color=_TEXT, fontsize=9)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"{limits[0].vary}   (× ran out of memory, dotted: the largest that fits)")
    axes.set_ylabel("tensor peak")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: readable_bytes(value)))
    axes.grid(color=_RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=9, loc="outside lower center")
    FigureCanvasSVG(figure)
    figure.savefig(path)
