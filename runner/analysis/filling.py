"""Tell the buffers of a data pipeline that fill from growth: what they take ends once they are
full.

How fast they fill is what a memory trial saw from the first steady step to the last. Core: standard
library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from runner.analysis.growth import ProcessGrowth
from runner.facts import PipelineBuffer
from runner.metrics import format_bytes
from runner.records import Trial

_OFF = 1.2
"""By how much more than the buffers take may rise: elements come in batches."""
_BESIDE_BYTES = 256
"""An element, on the host: malloc's header and rounding, and tf.data's own record of it."""


@dataclass(frozen=True)
class Filling:
    """The buffers that are not full yet, and what they take."""

    buffers: tuple[PipelineBuffer, ...]
    chosen: tuple[PipelineBuffer, ...]
    """Those of which AUTOTUNE chooses the size, and has chosen more."""
    steps: int
    """In which they were seen."""

    def explains_tensors(self, growth: float) -> bool:
        """Return True if they take so many bytes a step."""
        return growth <= _OFF * _sum_rises((*self.buffers, *self.chosen)) / self.steps

    def explains_host(self, growth: float, steps: int) -> bool:
        """Return True if they take so many bytes a step, and are not full after half of the steps,
        either."""
        beside = 0.0
        for buffer in self.buffers:
            elements = (buffer.elements[-1] - buffer.elements[0]) / self.steps
            if buffer.elements[0] + elements * steps / 2 >= (buffer.capacity or 0):
                return False
            beside += _BESIDE_BYTES * elements
        return growth <= _OFF * _sum_rises(self.buffers) / self.steps + beside


def _sum_rises(buffers: Iterable[PipelineBuffer]) -> int:
    return sum(max(0, buffer.bytes[-1] - buffer.bytes[0]) for buffer in buffers)


def find_filling(trials: Iterable[Trial]) -> Filling | None:
    """Return the buffers that fill, of the first memory trial in which some did; None without."""
    for trial in trials:
        seen, steps = trial.facts.pipelines, len(trial.steps.tensor_live_bytes)
        buffers = tuple(buffer for buffer in seen if buffer.will_be_full)
        chosen = tuple(buffer for buffer in seen if buffer.chosen_by_autotune)
        if steps and _sum_rises((*buffers, *chosen)):
            return Filling(buffers, chosen, steps)
    return None


def find_endless(trials: Iterable[Trial]) -> PipelineBuffer | None:
    """Return the buffer that goes on filling and has no known end; None without."""
    for trial in trials:
        for buffer in trial.facts.pipelines:
            if buffer.is_filling and buffer.capacity is None and not buffer.chosen_by_autotune:
                return buffer
    return None


def leave_out(found: ProcessGrowth, explains: Callable[[float], bool]) -> ProcessGrowth:
    """Return the growth: 0 where what fills a buffer explains all of it."""
    most = found.bytes_per_step or found.at_most_bytes_per_step
    if found.bytes_per_step == 0 or most is None or not explains(most):
        return found
    return replace(found, bytes_per_step=0.0, steps_needed=None, at_most_bytes_per_step=most)


def describe_filling(filling: Filling) -> str:
    """Return which buffers fill, and where each ends, as a person reads it."""
    parts = []
    for buffer in filling.buffers:
        capacity = buffer.capacity or 0
        size = f", {format_bytes(capacity * buffer.element_bytes)}" if buffer.element_bytes else ""
        parts.append(f"tf.data's {buffer.stage} fills, until it holds {capacity:,} elements{size}")
    rising = [buffer.stage for buffer in filling.chosen if _sum_rises([buffer])]
    if rising and not parts:
        parts.append(f"tf.data's {rising[0]} fills, as AUTOTUNE gives it more room")
    return "; ".join(parts)
