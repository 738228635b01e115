"""The yardstick of a search for the largest value that fits: what plain bisection costs."""

from __future__ import annotations


def bisection(answer: int, most: int) -> tuple[int, int]:
    """What plain bisection over 1 to `most` would have cost: probes, and how many that fail."""
    low, high = 0, most + 1
    probes = failing = 0
    while high - low > 1:
        middle = (low + high) // 2
        probes += 1
        if middle <= answer:
            low = middle
        else:
            high = middle
            failing += 1
    return probes, failing
