"""What a test may take: read from its mark and the ini file, and held against what it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from runner.allocations import Allocations
from runner.errors import nearest
from runner.judging import growth
from runner.judging.growth import Growth
from runner.metrics import bytes_of, readable_bytes
from runner.trial.guest import Seen

STEPS = 10
"""So often is a test called again, where its growth is limited."""


@dataclass(frozen=True)
class Limits:
    """In bytes; None where there is no limit."""

    peak: float | None = None
    growth: float | None = None
    steps: int = STEPS

    @staticmethod
    def read(said: Mapping[str, Any], mark: pytest.Mark | None, place: str) -> Limits:
        """Of the ini file's words and the mark's, which come first. Raises `UsageError`."""
        limits = Limits().but(said, "the ini file's tf_memory_")
        if mark is None:
            return limits
        if mark.args:
            raise pytest.UsageError(
                f'{place}: a limit has a name: @pytest.mark.tf_memory(peak="120 MB").'
            )
        return limits.but(mark.kwargs, f"{place}: tf_memory ")

    def but(self, words: Mapping[str, Any], place: str) -> Limits:
        """With other limits where words say so."""
        found: dict[str, Any] = {}
        for name, value in words.items():
            if name not in ("peak", "growth", "steps"):
                raise pytest.UsageError(
                    f"{place}{name}: there is no such limit. "
                    + nearest(name, ("peak", "growth", "steps"))
                )
            if value is None or value == "":
                continue
            if name == "steps":
                if type(value) is not int or value < 2:
                    raise pytest.UsageError(f"{place}steps={value!r}: is not a whole number from 2")
                found[name] = value
            else:
                amount = bytes_of(value) if isinstance(value, str) else value
                if isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
                    raise pytest.UsageError(
                        f"{place}{name}={value!r}: is not a valid amount; write '120 MB', in B, "
                        "kB, MB, GB, KiB, MiB, GiB"
                    )
                found[name] = amount
        return replace(self, **found)


@dataclass(frozen=True)
class Taken:
    """What a test, or a block of it, took."""

    peak_bytes: int
    growth: Growth | None
    """None where there was but one call, or one step."""
    steps: int
    allocations: Allocations
    runs_graph: bool
    """TensorFlow ran ops of a graph, in an order that is drawn anew in each process."""
    before_bytes: int

    @staticmethod
    def of(seen: Seen) -> Taken:
        trial = seen.trial
        assert trial.allocations is not None
        live = trial.steps.get("tensor_live_bytes", [])
        return Taken(
            peak_bytes=trial.allocations.total_bytes,
            growth=growth.of_tensors(trial) if len(live) > 1 else None,
            steps=len(live),
            allocations=trial.allocations,
            runs_graph=bool(trial.facts.get("graph_ops")),
            before_bytes=seen.before_bytes,
        )

    @property
    def growth_bytes_per_step(self) -> float | None:
        return self.growth.bytes_per_step if self.growth else None

    def over(self, limits: Limits) -> Iterator[str]:
        """A sentence for each limit that it exceeds, or can't be told to keep."""
        if limits.peak is not None and self.peak_bytes > limits.peak:
            yield f"its peak of {exact(self.peak_bytes)} is above {exact(limits.peak)}"
        if limits.growth is None:
            return
        if self.growth is None:
            yield "its growth is limited, and there were no steps to tell it from"
        elif (rate := self.growth.bytes_per_step) is None:
            yield (
                f"whether it grows can't be told from {self.steps} steps; "
                f"steps={self.growth.steps_needed} would tell"
            )
        elif rate > limits.growth:
            yield f"it grows by {exact(rate)} a step, above {readable_bytes(limits.growth)}"

    def table(self, most: int = 10) -> str:
        """What was live at the peak, by line; what stayed; what was there before."""
        from runner.terminal import peak  # half a second, which only a failure has to take

        text = peak.of(self.allocations, most)
        if self.before_bytes:
            text += (
                f"\n\nNot in these figures: {readable_bytes(self.before_bytes)} that were live "
                "before (shared fixtures, other tests), by TensorFlow's own count."
            )
        return text


def exact(size: float) -> str:
    return f"{readable_bytes(size)} ({size:,.0f} bytes)"
