"""A buffer of tf.data's that fills is no growth; one that never will be full is."""

from __future__ import annotations

import pytest

from runner.render.text.run_summary import describe_figure
from tests.conftest import MeasureWords

GROWTH = "tensor_growth_bytes_per_step"


def words(name: str) -> list[str]:
    target = f"scenario.target=tests.integration.leak.filling:{name}"
    # A trial of few steps sees how a thread runs ahead of them; this is not about that.
    return ["scenario=callable", target, "measure.memory_steps=60", "measure.memory_processes=1"]


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("cache", "none: tf.data's memory cache fills, until it holds 100,000 elements, 78.4 MB"),
        (
            "cache_then_shuffle",
            "none: tf.data's memory cache fills, until it holds 100,000 elements, 78.4 MB",
        ),
    ],
)
def test_a_cache_of_a_known_number_fills(measure: MeasureWords, name: str, remark: str) -> None:
    record = measure(*words(name))
    assert record.metrics[GROWTH] == 0
    assert describe_figure(record, GROWTH) == remark


def test_a_cache_of_a_dataset_without_an_end_grows(measure: MeasureWords) -> None:
    record = measure(*words("endless_cache"))
    assert (record.metrics[GROWTH] or 0) > 600


@pytest.mark.parametrize(("name", "capacity"), [("shuffle", 1_023), ("prefetch", 500)])
def test_a_buffer_of_a_given_size_does_not_grow(
    measure: MeasureWords, name: str, capacity: int
) -> None:
    record = measure(*words(name))
    assert not record.metrics[GROWTH]
    seen = {each.stage: each for each in record.trials[0].facts.pipelines}
    assert (seen[name].capacity, seen[name].element_bytes) == (capacity, 784)
