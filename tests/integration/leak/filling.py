"""Pipelines of tf.data whose buffers fill, of elements of 784 bytes. Each returns its step.
A last `prefetch` keeps TensorFlow from putting one in that grows as AUTOTUNE likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]


def _make_elements(count: int | None) -> Any:
    """Return a dataset of so many elements; of no end without."""
    import tensorflow as tf

    numbers = tf.data.Dataset.range(count) if count else tf.data.Dataset.range(10).repeat()
    return numbers.map(lambda number: tf.fill([98], tf.cast(number, tf.float64)))


def _take_one(dataset: Any) -> Step:
    elements = iter(dataset)
    return lambda: next(elements)


def shuffle() -> Step:
    return _take_one(_make_elements(None).shuffle(1_023))


def prefetch() -> Step:
    return _take_one(_make_elements(None).prefetch(500))


def cache() -> Step:
    return _take_one(_make_elements(100_000).cache().repeat().prefetch(1))


def endless_cache() -> Step:
    return _take_one(_make_elements(None).cache().prefetch(1))


def cache_then_shuffle() -> Step:
    return _take_one(_make_elements(100_000).cache().shuffle(1_023).repeat().batch(8).prefetch(2))
