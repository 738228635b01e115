"""Limits of a test: read from its mark and the ini file, and held against what it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from runner.allocations import Allocations
from runner.analysis import growth
from runner.analysis.growth import ProcessGrowth
from runner.errors import suggest
from runner.meters.tensor.block import BlockResult
from runner.metrics import format_bytes, parse_bytes

STEPS = 10
"""So often is a test called again, where its growth is limited."""


@dataclass(frozen=True)
class MemoryLimits:
    """The limits of a test in bytes; None where there is no limit."""

    peak: float | None = None
    growth: float | None = None
    steps: int = STEPS

    @staticmethod
    def read(ini: Mapping[str, Any], mark: pytest.Mark | None, place: str) -> MemoryLimits:
        """Return those of the ini file and the mark, which comes first; raise `UsageError`."""
        limits = MemoryLimits().update(ini, "the ini file's tf_memory_")
        if mark is None:
            return limits
        if mark.args:
            raise pytest.UsageError(
                f'{place}: a limit has a name: @pytest.mark.tf_memory(peak="120 MB").'
            )
        return limits.update(mark.kwargs, f"{place}: tf_memory ")

    def update(self, words: Mapping[str, Any], place: str) -> MemoryLimits:
        """Return other limits where words say so; raise `UsageError` for wrong ones."""
        amounts: dict[str, Any] = {}
        known = ("peak", "growth", "steps")
        for name, value in words.items():
            if name not in known:
                remedy = suggest(name, known)
                raise pytest.UsageError(f"{place}{name}: there is no such limit. {remedy}")
            if value is None or value == "":
                continue
            amount = parse_bytes(value) if isinstance(value, str) and name != "steps" else value
            if name == "steps":
                if type(value) is not int or value < 2:
                    raise pytest.UsageError(f"{place}steps={value!r}: is not a whole number from 2")
            elif isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
                raise pytest.UsageError(
                    f"{place}{name}={value!r}: is not a valid amount; write '120 MB', in B, "
                    "kB, MB, GB, KiB, MiB, GiB"
                )
            amounts[name] = amount
        return replace(self, **amounts)


@dataclass(frozen=True)
class MemoryUse:
    """The memory that a test, or a block of it, took."""

    peak_bytes: int
    growth: ProcessGrowth | None
    """None where there was but one call, or one step."""
    steps: int
    allocations: Allocations
    runs_graph: bool
    """TensorFlow ran ops of a graph, in an order that is drawn anew in each process."""
    before_bytes: int

    @staticmethod
    def of(seen: BlockResult) -> MemoryUse:
        trial = seen.trial
        assert trial.allocations is not None
        live = trial.steps.tensor_live_bytes
        return MemoryUse(
            peak_bytes=trial.allocations.total_bytes,
            growth=growth.judge_tensors(trial) if len(live) > 1 else None,
            steps=len(live),
            allocations=trial.allocations,
            runs_graph=bool(trial.facts.graph_ops),
            before_bytes=seen.before_bytes,
        )

    @property
    def growth_bytes_per_step(self) -> float | None:
        """Return the bytes that stay of each step."""
        return self.growth.bytes_per_step if self.growth else None

    def grows_beyond(self, limits: MemoryLimits) -> bool:
        """Return True if more stays of each step than may."""
        rate = self.growth_bytes_per_step
        return limits.growth is not None and rate is not None and rate > limits.growth

    def list_excesses(self, limits: MemoryLimits) -> Iterator[str]:
        """Yield a sentence for each limit that it exceeds, or can't be told to keep."""
        if limits.peak is not None and self.peak_bytes > limits.peak:
            peak = format_exact(self.peak_bytes)
            yield f"its peak of {peak} is above {format_exact(limits.peak)}"
        if limits.growth is None:
            return
        if self.growth is None:
            yield "its growth is limited, and no steps were measured"
        elif (rate := self.growth.bytes_per_step) is None:
            yield (
                f"{self.steps} steps are too few to say whether it grows; "
                f"say steps={self.growth.steps_needed}"
            )
        elif self.grows_beyond(limits):
            yield f"it grows by {format_exact(rate)} a step, above {format_bytes(limits.growth)}"

    def table(self, most: int = 10) -> str:
        """Return what was live at the peak, by line; what stayed; what was there before."""
        from runner.render.text.peak_listing import list_peak  # half a second; for failures only

        text = list_peak(self.allocations, most)
        if self.before_bytes:
            text += (
                f"\n\nNot in these figures: {format_bytes(self.before_bytes)} that were live "
                "before (shared fixtures, other tests), by TensorFlow's own count."
            )
        return text


def format_exact(size: float) -> str:
    return f"{format_bytes(size)} ({size:,.0f} bytes)"
