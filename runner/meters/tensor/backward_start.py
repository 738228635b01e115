"""Tell when a graph turns from its forward pass to its backward one, by what its nodes are called.

    forward   a  b  c           d          ops that something differentiates
    backward     x           |  y  z       ops of gradients: the first that follows all of the
                             ^ here        forward ones begins it (x needs only what went in)

Core: standard library and NumPy. An op's place is a path of scopes with the node's name at its end;
of a backward pass's op that is the path of what it differentiates, then `GRADIENT`, as in `names`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from runner.allocations import GRADIENT
from runner.meters.tensor.window import Ints


def list_differentiated(backward: Iterable[str]) -> set[str]:
    """Return every scope and node in which something has a gradient, from the scopes of the
    gradients. An optimizer's are in none."""
    found: set[str] = set()
    for scope in backward:
        parts = scope.split("/")
        if GRADIENT in parts:
            parts = parts[: parts.index(GRADIENT)]
        parts = [re.sub(r"_grad(_\d+)?$", "", part) for part in parts]  # in a loop's own gradient
        found.update("/".join(parts[:length]) for length in range(1, len(parts) + 1))
    return found


def is_differentiated(paths: Iterable[str], known: set[str]) -> bool:
    """Return whether one of these is in such a scope. A loop's gradient has no bodies in it."""
    plain = {re.sub(r"/(?:body|then|else|branch\d+)(?=/)", "", path) for path in paths}
    return not known.isdisjoint(plain)


def find_turns(forward: Ints, backward: Ints, all_born: Ints) -> Ints:
    """Return the first op of the backward pass that follows all of the forward one: some gradients'
    parts need no more than what went in, and run long before. Without a forward pass that can be
    told, whenever a backward pass begins."""
    if not backward.size:
        return backward
    if forward.size:
        later = backward[backward > forward.max()]
        return np.array([(later if later.size else backward).min()])
    ordered = np.sort(all_born)
    is_backward = np.isin(ordered, backward)
    begins = is_backward & ~np.append(False, is_backward[:-1])
    found: Ints = ordered[begins]
    return found
