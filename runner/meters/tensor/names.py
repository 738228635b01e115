"""From what TensorFlow calls an allocation to its op, its layer or scope, its shape and its dtype.
Core: standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from runner.allocations import GRADIENT
from runner.meters.tensor.window import CONSTANT, EAGER_OP, EXECUTABLE

XLA = "XLA"
"""The op of what XLA allocates for a whole compiled function: its scope is the function's name."""

UNKNOWN = "unknown"
"""The op of what TensorFlow names nothing for."""

FUNCTION = "preparing a function"
"""The op of what is allocated while a function is made ready, as constants are folded."""


def parse_shape(text: str) -> tuple[int, ...] | None:
    """Return the shape in `[64,100]`, as TensorFlow writes it; `None` where it says nothing."""
    if not re.fullmatch(r"\[[\d,]*\]", text):
        return None
    return tuple(int(size) for size in text[1:-1].split(",") if size)


# tensorflow/core/framework/types.proto; the bytes are an element's: of a text its head
# (`sizeof(tstring)`), of a resource its handle, of a variant its place.
_DTYPES = {
    1: ("float32", 4), 2: ("float64", 8), 3: ("int32", 4), 4: ("uint8", 1), 5: ("int16", 2),
    6: ("int8", 1), 7: ("string", 24), 8: ("complex64", 8), 9: ("int64", 8), 10: ("bool", 1),
    11: ("qint8", 1), 12: ("quint8", 1), 13: ("qint32", 4), 14: ("bfloat16", 2),
    15: ("qint16", 2), 16: ("quint16", 2), 17: ("uint16", 2), 18: ("complex128", 16),
    19: ("float16", 2), 20: ("resource", 200), 21: ("variant", 64), 22: ("uint32", 4),
    23: ("uint64", 8), 24: ("float8_e5m2", 1), 25: ("float8_e4m3fn", 1),
    26: ("float8_e4m3fnuz", 1), 27: ("float8_e4m3b11fnuz", 1), 28: ("float8_e5m2fnuz", 1),
    29: ("int4", None), 30: ("uint4", None), 31: ("int2", None), 32: ("uint2", None),
    33: ("float4_e2m1fn", None),
}  # fmt: skip


def name_dtype(number: int) -> str:
    """Return TensorFlow's `DataType` by name; one that it gained since is said to be unknown."""
    unknown = "untyped" if number <= 0 else f"unknown ({number})"
    return _DTYPES.get(number, (unknown, None))[0]


def count_bytes(shape: tuple[int, ...] | None, dtype: int) -> int | None:
    """Return what a tensor takes, where its shape and its dtype say so."""
    _, each = _DTYPES.get(dtype, ("", None))
    return None if shape is None or each is None else each * math.prod(shape)


def parse_function(called: str) -> str:
    """Return the name of a function as Python made it; nothing for what is none."""
    found = re.fullmatch(r"__(?:inference|forward|backward)_(.+)_\d+", called)
    return found[1] if found else ""


def name_op(op: str, within: str, op_types: Mapping[str, str]) -> tuple[str, str]:
    """Return an allocation's op type, and the layer or scope that it belongs to.

    `op` is what TensorFlow names, `within` the span around it. The first line that fits counts:

        op is                      within is                        the op type       the scope
        anything                   XLA's run, or `op:op` itself     XLA               the function
        a function's name          anything else                    preparing a ...   the function
        nothing                    tf.constant                      tf.constant       none
        nothing                    an op's, or a node's, span       of what is in the span
        an op's type (eager)       -                                itself            none
        a node's name (graph)      -                                of the node       its path
    """
    name = parse_function(op)
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
    scope, _, leaf = to_path(re.sub(r"(?:/_\d+)+$", "", op)).rpartition("/")
    kind = op_types.get(op) or re.sub(r"_\d+$", "", leaf) or UNKNOWN
    return strip_library(kind), scope


def strip_library(op: str) -> str:
    """Return an op's type, whichever library computes it."""
    return re.sub(r"^_Mkl(Native)?", "", op)


def to_gradient(scope: str) -> str:
    """Return the scope of the ops of its backward pass."""
    if scope.endswith(GRADIENT):
        return scope
    return f"{scope}/{GRADIENT}" if scope else GRADIENT


def to_forward(scope: str) -> str:
    """Return the scope of an op that has the name of a backward pass's, and runs in the forward
    one."""
    return scope.removesuffix(GRADIENT).removesuffix("/")


def to_path(node: str) -> str:
    """Return a graph node's name as a path of scopes.

    What TensorFlow repeats goes: each branch of a `cond` or `while` has its path in full once more
    (`outer/while/body/_1/outer/while/mm`), and an inlined function's call is no scope. An op of a
    backward pass goes below what it is for.
    """
    node = re.sub(r"(?<![^/])(?:Stateful)?PartitionedCall(?:_\d+)?/", "", node)
    gradient = re.match(r"(?:.*/)?gradient(?:s|_tape)(?:_\d+)?/(.+)", node)
    parts = re.split(r"/(body|cond|then|else|branch\d+)/_\d+/", gradient[1] if gradient else node)
    path = parts[-1]
    if len(parts) > 1 and path.startswith(f"{parts[-3]}/"):
        path = f"{parts[-3]}/{parts[-2]}/{path.removeprefix(f'{parts[-3]}/')}"
    scope, _, leaf = path.rpartition("/")
    return "/".join(part for part in (scope, GRADIENT if gradient else "", leaf) if part)
