"""Tell the buffers of a data pipeline that fill from growth: what they take ends once they are
full.

How fast they fill is what a memory trial saw from the first steady step to the last. Core: standard
library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from runner.analysis.growth import LEVEL_STEPS, ProcessGrowth
from runner.facts import PipelineBuffer
from runner.metrics import format_bytes
from runner.records import Trial

_OFF = 1.2
"""By how much more than the buffers take may rise: elements come in batches."""
_BESIDE_BYTES = 256
"""An element, on the host: malloc's header and rounding, and tf.data's own record of it."""


@dataclass(frozen=True)
class Filling:
    """The buffers that rise to a known end, and what they take."""

    buffers: tuple[PipelineBuffer, ...]
    ahead: tuple[PipelineBuffer, ...]
    """Prefetches: they rise when there is time for it, to a size that AUTOTUNE may choose."""
    steps: int
    """In which they were seen."""

    @property
    def tensor_bytes_per_step(self) -> float:
        """Return the most that growth of tensors may be if it is the buffers alone."""
        return _OFF * _sum_rises(self.buffers) / self.steps

    @property
    def ahead_bytes_per_step(self) -> float:
        """Return what prefetches may add to it, all in the half of the steps that tells growth."""
        return 2 * _OFF * _sum_rises(self.ahead) / self.steps

    def compute_host_rate(self, steps: int) -> float:
        """Return the most that growth of the host in so many steps may be if it is the buffers
        alone; 0 where one of them would be full after half of these."""
        elements = 0.0
        for buffer in self.buffers:
            rate = (buffer.elements[-1] - buffer.elements[0]) / self.steps
            if buffer.elements[0] + rate * steps / 2 >= (buffer.capacity or 0):
                return 0.0
            elements += rate
        return self.tensor_bytes_per_step + _BESIDE_BYTES * elements


def _sum_rises(buffers: Iterable[PipelineBuffer]) -> int:
    return sum(max(0, buffer.bytes[-1] - buffer.bytes[0]) for buffer in buffers)


def find_filling(trials: Iterable[Trial]) -> Filling | None:
    """Return the buffers that fill, of the first memory trial in which some did; None without, or
    where one that has no known end fills beside them."""
    for trial in trials:
        seen, steps = trial.facts.pipelines, len(trial.steps.tensor_live_bytes)
        ahead = tuple(buffer for buffer in seen if buffer.stage == "prefetch")
        buffers = tuple(
            buffer for buffer in seen if buffer.has_known_end and buffer.stage != "prefetch"
        )
        if steps and _sum_rises((*buffers, *ahead)) and not find_endless([trial]):
            return Filling(buffers, ahead, steps)
    return None


def find_endless(trials: Iterable[Trial]) -> PipelineBuffer | None:
    """Return the buffer that goes on filling and has no known end; None without."""
    for trial in trials:
        for buffer in trial.facts.pipelines:
            if buffer.is_filling and buffer.capacity is None and not buffer.chosen_by_autotune:
                return buffer
    return None


def leave_out(found: ProcessGrowth, most: float, perhaps: float = 0.0) -> ProcessGrowth:
    """Return the growth: 0 where it is no more than what buffers take; not known where what
    `perhaps` is theirs makes the difference."""
    rate = found.bytes_per_step or found.at_most_bytes_per_step
    if found.bytes_per_step == 0 or rate is None or rate > most + perhaps:
        return found
    if rate <= most:
        return replace(found, bytes_per_step=0.0, steps_needed=None, at_most_bytes_per_step=rate)
    needed = found.steps_needed or LEVEL_STEPS
    return replace(found, bytes_per_step=None, steps_needed=needed, at_most_bytes_per_step=rate)


def describe_filling(filling: Filling) -> str:
    """Return which buffers fill, and where each ends, as a person reads it."""
    parts = []
    for buffer in filling.buffers:
        capacity = buffer.capacity or 0
        size = f", {format_bytes(capacity * buffer.element_bytes)}" if buffer.element_bytes else ""
        parts.append(f"tf.data's {buffer.stage} fills, until it holds {capacity:,} elements{size}")
    return "; ".join(parts)
