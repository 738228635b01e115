"""How ops, layers and types are called."""

from __future__ import annotations

import pytest

from runner.meters.tensor.names import count_bytes, name_op, to_forward


@pytest.mark.parametrize(
    ("shape", "dtype", "size"),
    [((), 9, 8), ((3, 5), 1, 60), ((4,), 10, 4), ((2,), 7, 48), (None, 1, None), ((2,), 99, None)],
)
def test_a_tensor_s_bytes_follow_from_shape_and_dtype(
    shape: tuple[int, ...] | None, dtype: int, size: int | None
) -> None:
    assert count_bytes(shape, dtype) == size


def test_a_node_that_is_numbered_below_its_name_has_that_name() -> None:
    assert name_op("cond/If/pivot_f/_1", "", {}) == ("pivot_f", "cond/If")


def test_a_forward_op_s_scope_is_no_gradient_s() -> None:
    assert to_forward("while/(gradient)") == "while"
    assert to_forward("(gradient)") == ""
    assert to_forward("dense") == "dense"
