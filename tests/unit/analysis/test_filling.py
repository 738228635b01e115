"""Buffers of tf.data that fill are told from growth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.facts import PipelineBuffer
from runner.records import Record
from runner.render.text.run_summary import describe_figure
from tests import factories

TENSOR, HOST = "tensor_growth_bytes_per_step", "host_growth_bytes_per_step"
STEPS = 5
ENDLESS = None


def cache(capacity: int | None, elements: int = 10, **more: Any) -> PipelineBuffer:
    """A cache that took an element of 1,000 bytes in each step."""
    counts = elements - STEPS, elements
    sizes = (1_000 * counts[0], 1_000 * counts[1])
    found = PipelineBuffer("memory cache", counts, sizes, None, False, capacity, 1_000)
    return replace(found, **more)


def record(*pipelines: PipelineBuffer, rate: float = 1_000, host_rate: float = 1_150) -> Record:
    live = [rate * step for step in range(STEPS)]
    resident = [host_rate * step for step in range(2_000)]
    memory = factories.memory_trial(live_bytes=live, pipelines=pipelines)
    return factories.measured(memory, factories.timing_trial((0.001,) * 2_000, resident))


def test_what_a_buffer_takes_until_it_is_full_is_no_growth() -> None:
    found = record(cache(100_000))
    assert (found.metrics[TENSOR], found.metrics[HOST]) == (0, 0)
    assert describe_figure(found, TENSOR) == (
        "none: tf.data's memory cache fills, until it holds 100,000 elements, 100 MB"
    )


def test_a_buffer_without_a_known_end_is_growth() -> None:
    ahead = PipelineBuffer("prefetch", (1, 9), (1_000, 9_000), 16, chosen_by_autotune=True)
    found = record(cache(ENDLESS), ahead)
    assert (found.metrics[TENSOR], found.metrics[HOST]) == (1_000, 1_150)
    assert describe_figure(found, TENSOR) == ""


def test_what_goes_on_once_a_buffer_is_full_is_growth_of_the_host() -> None:
    assert record(cache(500)).metrics[HOST] == 1_150


@pytest.mark.parametrize(("rate", "host_rate"), [(1_300, 1_150), (1_000, 1_600)])
def test_what_grows_beside_a_buffer_is_growth(rate: int, host_rate: int) -> None:
    found = record(cache(100_000), rate=rate, host_rate=host_rate)
    assert bool(found.metrics[TENSOR]) == (rate > 1_000)
    assert bool(found.metrics[HOST]) == (host_rate > 1_150)


@pytest.mark.parametrize("buffers", [(), (cache(100_000),)])
def test_what_a_prefetch_may_have_taken_is_not_known(buffers: tuple[PipelineBuffer, ...]) -> None:
    ahead = PipelineBuffer("prefetch", (1, 3), (1_000, 3_000), 4, chosen_by_autotune=True)
    found = record(*buffers, ahead, rate=900 + 1_000 * len(buffers))
    assert found.metrics[TENSOR] is None
    assert "say measure.memory_steps=1000" in found.unavailable[TENSOR]
