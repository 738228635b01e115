"""Find what a graph's node was called before TensorFlow gave it another name. Core: standard
library only.

    what TensorFlow runs                              what Python made
    StatefulPartitionedCall/model/dense/MatMul        model/dense/MatMul: an inlined function's
    dense/ArithmeticOptimizer/AddOpsRewrite_add_1     dense/add_1: made by the optimiser
    gradient_tape/dense/MatMul/MatMul_1               dense/MatMul: its gradient
    Sin/unary_ops_composition                         Sin: a part of it
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FOLDED = re.compile(r"/_\d+__cf__\d+$")
_LAYOUT = re.compile(r"-\d+-.*(?:LayoutOptimizer|_LayoutOptimizer)$")
_STAGE = re.compile(
    r"(?:^|(?<=/))(?:ArithmeticOptimizer|ConstantFolding|LayoutOptimizer|Remapper)/"
)
_STAGE_NAME = re.compile(r"^[A-Z][A-Za-z]+_")
_ADDED = re.compile(r"(?:_recip|_enter|_merged_input|_\d+|(?:-\w+)+)$")
_RECOMPUTED = re.compile(r"(?:^|(?<=/))(?:Recomputed|swap_(?:in|out))[/_]")
_GRADIENT = re.compile(r"(?:.*/)?gradient(?:s|_tape)(?:_\d+)?/")


def list_original_names(node: str) -> Iterator[tuple[str, bool]]:
    """Yield what a node may have been called when it was made, the likeliest name first, each with
    whether the node is its gradient: then it gets the line of what it differentiates."""
    for name in _list_unoptimised(node):
        gradient = _GRADIENT.match(name)
        if not gradient:
            yield from ((each, False) for each in _list_inner(name))
            continue
        forward = re.sub(r"_grad(?:_\d+)?(?=/|$)", "", name[gradient.end() :])
        parts = forward.split("/")
        for length in range(len(parts), 0, -1):
            yield from ((each, True) for each in _list_inner("/".join(parts[:length])))
        yield from ((each, True) for each in _list_inner(name))  # as it is: who asked for it


def list_spellings(node: str) -> Iterator[str]:
    """Yield the names under which a node may have been made, whatever it is for."""
    for name in _list_unoptimised(node):
        yield from _list_inner(name)


def list_enclosing(node: str) -> Iterator[str]:
    """Yield the names of what a node may be a part of, the innermost first: the optimiser puts what
    it makes of `Sin` below it, and a loop has its parts below it."""
    for name in _list_unoptimised(node):
        parts = name.split("/")
        for length in range(len(parts) - 1, 0, -1):
            yield from _list_inner("/".join(parts[:length]))


def _list_unoptimised(node: str) -> Iterator[str]:
    yield node
    name = _RECOMPUTED.sub("", _LAYOUT.sub("", _FOLDED.sub("", node)))
    if (stage := _STAGE.search(name)) is None:
        if name != node:
            yield name
        return
    scope, rest = name[: stage.start()], name[stage.end() :]
    while True:
        yield scope + rest
        shorter = _STAGE_NAME.sub("", rest)
        if shorter == rest:
            break
        rest = shorter
    yield scope + _ADDED.sub("", rest)


def _list_inner(name: str) -> Iterator[str]:
    """Yield the name, and what is left of it without what calls put in front."""
    parts = name.split("/")
    for start in range(len(parts)):
        yield "/".join(parts[start:])
