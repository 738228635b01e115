"""Steps whose largest batch is known, for the tests of `fit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def refuses_more_than_40(batch_size: int) -> Callable[[], Any]:
    """A failure that is none of memory."""
    import tensorflow as tf

    if batch_size > 40:
        raise ValueError("at most 40 fit on the shelf")
    return lambda: tf.zeros([batch_size, 1000])


def never_fits(batch_size: int) -> Callable[[], Any]:
    import tensorflow as tf

    return lambda: tf.zeros([batch_size, 10_000_000])
