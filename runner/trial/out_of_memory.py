"""Read from an error's message what was asked for when memory ran out. Core: standard library."""

from __future__ import annotations

import math
import re

from runner.facts import FailedRequest
from runner.metrics import format_bytes, format_mebibytes

_TENSORFLOW = re.compile(
    r"OOM when allocating tensor with shape\[([\d,]*)\] and type (\w+) on (?:\S*device:)?(\S+)"
)
_NUMPY = re.compile(r"array with shape \(([\d, ]*)\) and data type (\w+)")
_SIZE = re.compile(r"allocate ([\d.]+) ?([KMGT]i)?B")
_EAGER_OP = re.compile(r"\[Op:(\w+)\]")
_NODE = re.compile(r"\{\{node ([^}]+)\}\}")

_PREFIXES = ("", "Ki", "Mi", "Gi", "Ti")
_BYTES_OF = {
    **{"float": 4, "double": 8, "half": 2, "bfloat16": 2, "bool": 1, "complex64": 8},
    **{"complex128": 16, "float64": 8, "float32": 4, "float16": 2},
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_TENSORFLOWS_NAMES = {"float": "float32", "double": "float64", "half": "float16"}


def read_request(message: str) -> FailedRequest:
    """Return what the message of an out-of-memory error says of the request that failed."""
    op = shape = dtype = size = device = None
    if node := _NODE.search(message):
        op = node[1]
    elif (eager := _EAGER_OP.search(message)) and not eager[1].startswith("__"):
        op = eager[1]
    if tensor := _TENSORFLOW.search(message):
        shape, device = _parse_shape(tensor[1]), tensor[3]
        dtype = _TENSORFLOWS_NAMES.get(tensor[2], tensor[2])
    elif array := _NUMPY.search(message):
        shape, dtype = _parse_shape(array[1]), array[2]
    if shape is not None and dtype in _BYTES_OF:
        size = math.prod(shape) * _BYTES_OF[dtype]
    elif text := _SIZE.search(message):  # three digits or so
        size = round(float(text[1]) * 1024 ** _PREFIXES.index(text[2] or ""))
    return FailedRequest(op, shape, dtype, size, device)


def describe_request(request: FailedRequest, live_bytes: int | None, limit_mb: int | None) -> str:
    """Return for a person who asked for how much, and what was there then."""
    size = "more" if request.bytes is None else format_bytes(request.bytes)
    what = f" ({list(request.shape)} {request.dtype})" if request.shape is not None else ""
    where = f" of {request.device}" if request.device else ""
    then = "" if live_bytes is None else f" while {format_bytes(live_bytes)} were live"
    cap = "" if limit_mb is None else f", under a cap of {format_mebibytes(limit_mb)}"
    return f"{request.op or 'the code'} asked for {size}{what}{where}{then}{cap}"


def _parse_shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
