"""The differences that count as none, for each metric. The comparison of two cells and the law of
growth both ask here, so that what the one calls the same is what the other calls flat.

Core: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from runner.metrics import Metric

NOISE = 0.05
"""The share by which times and host memory may differ, unless another is asked for."""


@dataclass(frozen=True)
class Tolerance:
    """Figures that differ by no more than one of the two, whichever is more, are the same."""

    absolute: float
    share: float
    """A share of the larger figure: then it does not matter which of the two comes first."""

    def at(self, *figures: float) -> float:
        """Return by how much these figures may differ."""
        return max(self.absolute, self.share * max(map(abs, figures)))

    def widen(self, ranges: Iterable[tuple[float, float] | None]) -> Tolerance:
        """Return one under which figures differ only by more than processes of one cell do."""
        spread = max((high - low for low, high in filter(None, ranges)), default=0.0)
        return replace(self, absolute=max(self.absolute, spread))

    def same(self, figures: Sequence[float]) -> bool:
        """Return True if the figures count as the same."""
        return max(figures) - min(figures) <= self.at(*figures)


def find_tolerance(metric: Metric, noise: float = NOISE) -> Tolerance:
    """Return what counts as the same for a metric."""
    if metric.is_time:
        return Tolerance(0.0, noise)
    if not metric.is_memory:
        return Tolerance(0.0, 0.0)
    per_step = metric.unit == "bytes/step"
    if metric.source == "timing":
        return Tolerance(4e3 if per_step else 1e6, noise)
    if metric.name == "allocator_peak_bytes":
        return Tolerance(64e3, noise)  # its rounding depends on where a chunk came to lie
    return Tolerance(0.0 if per_step else 256.0, 0.005)
