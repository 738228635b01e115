"""The way to the limit as a picture: measured peaks, the model through them, the cap."""

from __future__ import annotations

from collections.abc import Sequence

from runner.fit.probes import Limit
from runner.metrics import format_bytes
from runner.render.html.charts import PlotLine, plot_svg
from runner.render.html.scales import LinearScale, make_scale_from_zero

_MODEL_POINTS = 100


def draw_limits(limits: Sequence[Limit]) -> str:
    """Return an SVG picture with a line a strategy. A cross stands where a value ran out of memory,
    on the cap: how much it would have taken is not known."""
    tried = [probe.value for limit in limits for probe in limit.probes]
    peaks = [probe.peak_bytes or 0 for limit in limits for probe in limit.probes]
    caps = sorted({limit.strategy.cap_bytes or 0 for limit in limits} - {0})
    return plot_svg(
        [line for number, limit in enumerate(limits) for line in _draw_limit(number, limit)],
        LinearScale(0, 1.05 * max(tried), lambda value: f"{value:,.0f}"),
        make_scale_from_zero([*peaks, *caps], format_bytes),
        x_name=f"{limits[0].vary} against tensor peak; × ran out of memory, ★ the largest that "
        "fits, the line is the model",
        legend=[(number, limit.title) for number, limit in enumerate(limits)],
        levels=[(cap, f"cap {format_bytes(cap)}") for cap in caps],
    )


def _draw_limit(series: int, limit: Limit) -> list[PlotLine]:
    fitting = {probe.value: probe.peak_bytes for probe in limit.probes
               if probe.fits and probe.peak_bytes is not None}  # fmt: skip
    lines = []
    if (model := limit.model) is not None:
        sizes = [max(fitting) * 1.05 * step / _MODEL_POINTS for step in range(_MODEL_POINTS + 1)]
        lines.append(PlotLine([(size, max(0.0, model(size))) for size in sizes], series=series))
    points = sorted((value, peak) for value, peak in fitting.items() if value != limit.largest)
    best = [(value, peak) for value, peak in fitting.items() if value == limit.largest]
    cap = limit.strategy.cap_bytes
    failing = [(probe.value, cap) for probe in limit.probes if not probe.fits and cap is not None]
    for marked, mark in ((points, ""), (best, "★"), (failing, "×")):
        lines.append(PlotLine(marked, series=series, is_marked=True, is_joined=False, mark=mark))
    return lines
