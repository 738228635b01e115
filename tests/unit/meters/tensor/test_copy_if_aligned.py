"""Which arrays are copied before they are handed to TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from runner.meters.tensor.numpy_alignment import ALIGNMENT, copy_if_aligned


def aligned(dtype: str) -> np.ndarray:
    """An array of 8 elements that begins at a multiple of the alignment."""
    room = np.zeros(8 * 16 + ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % ALIGNMENT
    size = 8 * np.dtype(dtype).itemsize
    return room[begin : begin + size].view(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "complex64"])
def test_an_array_that_tensorflow_may_take_over_is_copied(dtype: str) -> None:
    array = aligned(dtype)
    copied = copy_if_aligned(array)
    assert copied is not array
    assert not np.shares_memory(copied, array)
    assert (copied == array).all()
    assert copied.dtype == array.dtype


def test_what_tensorflow_copies_itself_is_left_alone() -> None:
    array = aligned("float32")[1:]
    for value in (array, np.array(["text"]), np.array([None]), 3.0, [1, 2], "MatMul"):
        assert copy_if_aligned(value) is value
