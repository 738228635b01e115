"""Tests and errors for figures of which each process has one draw: what would chance alone do?

Core: standard library, NumPy and SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_RESAMPLES = 2000


def compute_smirnov_p(lower: Sequence[float], upper: Sequence[float]) -> float:
    """Return how likely chance alone puts `upper` as far above `lower`.

    This is the exact one-sided test of Kolmogorov and Smirnov, by counting the orders in which both
    can come. Ties make it too large, never too small.
    """
    from scipy.stats import ks_2samp

    return float(ks_2samp(lower, upper, alternative="greater", method="exact").pvalue)


def count_missing_trials(
    ours: Sequence[float], theirs: Sequence[float], bound: float, chance: float, most: int
) -> int | None:
    """Return how many memory processes more of either cell would tell them apart, if the share by
    which they lie apart stays what it is; None where not even `most` would."""
    widest = 0.0
    for lower, upper in ((ours, theirs), (theirs, ours)):
        for value in lower:
            below = sum(one <= value for one in lower) / len(lower)
            reached = sum(one <= value + bound for one in upper) / len(upper)
            widest = max(widest, below - reached)
    have = min(len(ours), len(theirs))
    for count in range(have + 1, have + most + 1):
        apart = math.floor(widest * count + 1e-9)
        if math.comb(2 * count, count - apart) <= chance * math.comb(2 * count, count):
            return count - have
    return None


def estimate_ratio_error(processes: Sequence[Sequence[float]]) -> float:
    """Return the standard error of the logarithm of the median over processes of each one's median.

    Processes are drawn with replacement, then steps within each drawn one. The median of m steps
    drawn from m is the one at a rank that follows the Beta distribution, so it is drawn as such
    (exact for odd m): a process costs one random number, however many steps it has.
    """
    import numpy as np

    random = np.random.default_rng(0)
    lengths = np.array([len(process) for process in processes])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    ordered = np.log(np.concatenate([np.sort(process) for process in processes]))
    drawn = random.integers(len(processes), size=(_RESAMPLES, len(processes)))
    steps = lengths[drawn]
    ranks = np.floor(random.beta((steps + 1) / 2, (steps + 1) / 2) * steps).astype(int)
    medians = np.median(ordered[starts[drawn] + np.minimum(ranks, steps - 1)], axis=1)
    return float(medians.std())
