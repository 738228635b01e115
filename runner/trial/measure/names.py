"""What TensorFlow calls an allocation -> its op, its layer or scope, its shape and its dtype.

Core: standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from runner.allocations import GRADIENT
from runner.trial.measure.xplane import CONSTANT, EAGER_OP, EXECUTABLE

XLA = "XLA"
"""The op of what XLA allocates for a whole compiled function: its scope is the function's name."""

UNKNOWN = "unknown"
"""The op of what TensorFlow names nothing for."""

FUNCTION = "preparing a function"
"""The op of what is allocated while a function is made ready, as constants are folded."""


def shape_of(text: str) -> tuple[int, ...] | None:
    """`[64,100]`, as TensorFlow writes it; `None` where it says nothing."""
    if not re.fullmatch(r"\[[\d,]*\]", text):
        return None
    return tuple(int(size) for size in text[1:-1].split(",") if size)


_DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string",
    8: "complex64", 9: "int64", 10: "bool", 11: "qint8", 12: "quint8", 13: "qint32",
    14: "bfloat16", 15: "qint16", 16: "quint16", 17: "uint16", 18: "complex128", 19: "float16",
    20: "resource", 21: "variant", 22: "uint32", 23: "uint64", 24: "float8_e5m2",
    25: "float8_e4m3fn", 26: "float8_e4m3fnuz", 27: "float8_e4m3b11fnuz", 28: "float8_e5m2fnuz",
    29: "int4", 30: "uint4", 31: "int2", 32: "uint2", 33: "float4_e2m1fn",
}  # fmt: skip


def dtype_name(number: int) -> str:
    """TensorFlow's `DataType`, by name; one that it gained since is said to be unknown."""
    return _DTYPES.get(number, "untyped" if number <= 0 else f"unknown ({number})")


_BYTES = {
    **dict.fromkeys((4, 6, 10, 11, 12, 24, 25, 26, 27, 28), 1),
    **dict.fromkeys((5, 14, 15, 16, 17, 19), 2),
    **dict.fromkeys((1, 3, 13, 22), 4),
    **dict.fromkeys((2, 8, 9, 23), 8),
    **{7: 24, 18: 16, 20: 200, 21: 64},
}
"""Of an element, by TensorFlow's number of its dtype: of a text its head, of a resource its handle,
of a variant its place."""


def bytes_of(shape: tuple[int, ...] | None, dtype: int) -> int | None:
    """What a tensor takes, where its shape and its dtype say so."""
    each = _BYTES.get(dtype)
    return None if shape is None or each is None else each * math.prod(shape)


def name_and_scope(op: str, within: str, op_types: Mapping[str, str]) -> tuple[str, str]:
    """An allocation's op type, and the layer or scope that it belongs to.

    `op` is what TensorFlow names: an op's type in eager mode, a graph node's full name in a graph,
    a whole function's name for XLA, or nothing; then the span around it says more.
    """
    function = re.fullmatch(r"__(?:inference|forward|backward)_(.+)_\d+", op)
    name = function[1] if function else ""
    if EXECUTABLE in within or within == f"{op}:{op}":  # TensorFlow 2.20 has only the latter
        return XLA, name
    if name:
        return FUNCTION, name
    if not op:
        if within == CONSTANT:
            return CONSTANT, ""
        op = within.removeprefix(EAGER_OP)
        node, separator, kind = op.rpartition(":")
        if separator:
            op, op_types = node, {node: kind}
    scope, _, leaf = path(re.sub(r"(?:/_\d+)+$", "", op)).rpartition("/")
    kind = op_types.get(op) or re.sub(r"_\d+$", "", leaf) or UNKNOWN
    return plain(kind), scope


def plain(op: str) -> str:
    """An op's type, whichever library computes it."""
    return re.sub(r"^_Mkl(Native)?", "", op)


def of_gradient(scope: str) -> str:
    """The scope of the ops of its backward pass."""
    if scope.endswith(GRADIENT):
        return scope
    return f"{scope}/{GRADIENT}" if scope else GRADIENT


def of_forward(scope: str) -> str:
    """The scope of what its name takes for an op of a backward pass, and that runs in the forward
    one."""
    return scope.removesuffix(GRADIENT).removesuffix("/")


def path(node: str) -> str:
    """A graph node's name as a path of scopes. What TensorFlow repeats goes: each branch of a
    `cond` or `while` has its path in full once more (`outer/while/body/_1/outer/while/mm`), and an
    inlined function's call is no scope. An op of a backward pass goes below what it is for."""
    node = re.sub(r"(?<![^/])(?:Stateful)?PartitionedCall(?:_\d+)?/", "", node)
    gradient = re.match(r"(?:.*/)?gradient(?:s|_tape)(?:_\d+)?/(.+)", node)
    parts = re.split(r"/(body|cond|then|else|branch\d+)/_\d+/", gradient[1] if gradient else node)
    path = parts[-1]
    if len(parts) > 1 and path.startswith(f"{parts[-3]}/"):
        path = f"{parts[-3]}/{parts[-2]}/{path.removeprefix(f'{parts[-3]}/')}"
    scope, _, leaf = path.rpartition("/")
    return "/".join(part for part in (scope, GRADIENT if gradient else "", leaf) if part)
