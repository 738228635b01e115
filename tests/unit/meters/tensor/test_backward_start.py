"""When a graph turns from its forward pass to its backward one."""

from __future__ import annotations

from runner.meters.tensor.backward_start import is_differentiated, list_differentiated


def test_a_loop_s_body_is_differentiated_where_the_loop_s_gradient_has_its_ops() -> None:
    known = list_differentiated(["while/MatMul_grad/(gradient)", "while/Tanh_grad_1/(gradient)"])
    assert is_differentiated(["while/body/MatMul"], known)
    assert is_differentiated(["while/body/Tanh"], known)
    assert not is_differentiated(["while/cond/Less"], known)
    assert not is_differentiated(["adam/Mul"], known)
