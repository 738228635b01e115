"""What a graph's node was called before TensorFlow gave it another name."""

from __future__ import annotations

import pytest

from runner.meters.tensor.node_names import list_enclosing, list_original_names


@pytest.mark.parametrize(
    ("node", "original"),
    [
        ("dense/MatMul", "dense/MatMul"),
        ("dense/MatMul/_0__cf__0", "dense/MatMul"),
        ("dense/ArithmeticOptimizer/AddOpsRewrite_add_1", "dense/add_1"),
        ("ConstantFolding/dense/truediv_recip", "dense/truediv"),
        ("dense/MatMul-0-TransposeNHWCToNCHW-LayoutOptimizer", "dense/MatMul"),
        ("StatefulPartitionedCall/model/dense/MatMul", "model/dense/MatMul"),
        ("while/body/_1/while/mm", "while/mm"),
    ],
)
def test_what_the_optimiser_or_a_call_renamed_is_known_again(node: str, original: str) -> None:
    assert (original, False) in list(list_original_names(node))


@pytest.mark.parametrize(
    ("node", "forward"),
    [
        ("gradient_tape/dense/MatMul/MatMul_1", "dense/MatMul"),
        ("gradients/dense/MatMul_grad/MatMul_1", "dense/MatMul"),
        ("PartitionedCall/gradient_tape/model/Tanh/TanhGrad", "model/Tanh"),
    ],
)
def test_a_backward_node_is_the_gradient_of_the_node_that_it_differentiates(
    node: str, forward: str
) -> None:
    assert (forward, True) in list(list_original_names(node))


def test_what_the_optimiser_made_anew_is_a_part_of_what_it_was_made_of() -> None:
    assert next(list_enclosing("Sin/unary_ops_composition")) == "Sin"
    assert "loop" in list(list_enclosing("PartitionedCall/loop/body/_1/exit"))


def test_a_name_that_nobody_renamed_comes_first() -> None:
    assert next(iter(list_original_names("block_0/Mul"))) == ("block_0/Mul", False)
