"""What buffers held, from looks made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runner.facts import PipelineBuffer
from runner.meters.host.pipelines import PipelineMeter


def node(name: str, elements: int, size: int, *parameters: tuple[str, float, bool]) -> Any:
    """A stage as tf.data's model has it."""
    named = [SimpleNamespace(name=n, value=v, tunable=t) for n, v, t in parameters]
    return SimpleNamespace(
        name=name, buffered_elements=elements, buffered_bytes=size, parameters=named
    )


def test_a_buffer_is_what_a_stage_held_at_each_look() -> None:
    meter, shuffle, cache, chosen, plain = PipelineMeter(), *((1, name, 0) for name in "abcd")
    meter._looks = [
        {shuffle: node("ShuffleV3", 10, 80), plain: node("Map", 0, 0)},
        {
            shuffle: node("ShuffleV3", 20, 160, ("buffer_size", 100.0, False)),
            cache: node("MemoryCacheImpl", 5, 40),
            chosen: node("Prefetch", 0, 0, ("parallelism", 2.0, True), ("buffer_size", 3.0, True)),
            plain: node("Map", 0, 0),
        },
    ]
    assert meter.list_buffers() == (
        PipelineBuffer("shuffle", (10, 20), (80, 160), 100, False),
        PipelineBuffer("memory cache", (0, 5), (0, 40), None, False),
        PipelineBuffer("prefetch", (0, 0), (0, 0), 3, True),
    )
