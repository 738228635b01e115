"""Which cells of a grid to measure next, to find its front in few of them: a sampler for Optuna.

Optuna's own samplers look at each field by itself and ask for a known cell again: made for hundreds
of trials, they find less of a small grid's front in as many (`python -m tests.benchmarks search`
has both). Peaks and times are products, more or less, of what each choice does to them; so their
logarithms are modelled, as a Gaussian process in which two cells are the more alike the fewer
choices they differ in. What is not measured is drawn from it many times over; the cell that comes
out on the front most often is the next one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from runner.judging.objective import WORST

Point = tuple[Any, ...]
Array = NDArray[np.float64]

MOST_CELLS = 1000
"""Of a larger space as many are drawn anew for each choice."""
_DRAWS = 128
_ALIKE = 0.8
"""How much two cells that differ in one choice have in common."""
_NOISE = 0.05
"""What a measured value may be off, as a share of the spread of all."""


class FrontSampler(BaseSampler):  # type: ignore[misc]
    """The first cells are drawn by chance, until one has been measured."""

    def __init__(self, seed: int | None = None) -> None:
        self._chance = np.random.default_rng(seed)
        self._given: dict[Point, None] = {}
        """All that was ever asked for, as not all of it has its figures yet."""

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> Mapping[str, BaseDistribution]:
        told = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return dict(told[0].distributions) if told else {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        told = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        known = {tuple(each.params[name] for name in search_space): each.values for each in told}
        given = {**dict.fromkeys(known), **self._given}
        cells = [point for point in self._cells(search_space) if point not in known]
        open_ones = [point for point in cells if point not in given]
        chosen = next(iter(known))
        if open_ones:
            places = _places([*known, *open_ones], search_space)
            worth = front_chances(places, np.array([*known.values()]), self._chance)
            chosen = open_ones[int(np.argmax(worth))]
        self._given[chosen] = None
        return dict(zip(search_space, chosen, strict=True))

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        choices = _values(param_distribution)
        return choices[int(self._chance.integers(len(choices)))]

    def _cells(self, space: Mapping[str, BaseDistribution]) -> list[Point]:
        values = [_values(each) for each in space.values()]
        if math.prod(map(len, values)) <= MOST_CELLS:
            return list(itertools.product(*values))
        drawn = [
            tuple(each[int(self._chance.integers(len(each)))] for each in values)
            for _ in range(MOST_CELLS)
        ]
        return list(dict.fromkeys(drawn))


def front_chances(places: Array, told: Array, chance: np.random.Generator) -> Array:
    """Of each cell that has no figures yet, how often it is on the front. `places` has a row a
    cell, the measured ones first; `told` their figures, a column each, smaller is better."""
    values = _evened(told)
    apart = np.abs(places[:, None, :] - places[None, :, :]).sum(axis=-1)
    alike = _ALIKE**apart
    many = len(values)
    known = alike[:many, :many] + _NOISE**2 * np.eye(many)
    across = alike[many:, :many]
    mean = across @ np.linalg.solve(known, values)
    left = alike[many:, many:] - across @ np.linalg.solve(known, across.T)
    root = np.linalg.cholesky(left + 1e-6 * np.eye(len(left)))
    chances = np.zeros(len(left))
    for _ in range(_DRAWS):
        drawn = mean + root @ chance.normal(size=mean.shape)
        chances += np.logical_not(_beaten(drawn, np.concatenate([values, drawn])))
    return chances / _DRAWS


def _evened(told: Array) -> Array:
    """Logarithms where a column has them, each column about 0 and of the same spread. What came to
    no figures is as bad as the worst that did, and worse by a spread."""
    columns = []
    for column in told.T:
        good = column[column < WORST]
        if not len(good):
            columns.append(np.zeros(len(column)))
            continue
        scaled = column
        if (good > 0).all():
            scaled = np.log(column)
        elif (good < 0).all():  # what should be large
            scaled = -np.log(np.where(column < WORST, -column, 1.0))
        fine = scaled[column < WORST]
        spread = float(fine.std()) or 1.0
        evened = np.where(column < WORST, scaled, fine.max() + spread)
        columns.append((evened - fine.mean()) / spread)
    return np.stack(columns, axis=-1)


def _beaten(points: Array, others: Array) -> NDArray[np.bool_]:
    """Whether another is as good in every column, and better in one."""
    as_good = (others[:, None, :] <= points[None, :, :]).all(axis=-1)
    better = (others[:, None, :] < points[None, :, :]).any(axis=-1)
    return np.asarray((as_good & better).any(axis=0))


def _places(cells: Sequence[Point], space: Mapping[str, BaseDistribution]) -> Array:
    """A column a field in which two cells are as far apart as they differ: numbers by their share
    of the range, on the scale of their order, its ends by 2; names by 1, over several columns."""
    columns: list[list[float]] = []
    for number, distribution in enumerate(space.values()):
        values = [cell[number] for cell in cells]
        known = _values(distribution)
        if all(isinstance(each, int | float) and not isinstance(each, bool) for each in known):
            rank = {value: place for place, value in enumerate(sorted(set(known)))}
            columns.append([2.0 * rank.get(each, 0) / max(1, len(rank) - 1) for each in values])
        else:
            columns += [[0.5 * (each == value) for each in values] for value in known]
    return np.array(columns).T


def _values(distribution: BaseDistribution) -> list[Any]:
    """All of them, or of a long range a hundred."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    low, high = distribution.low, distribution.high
    step = getattr(distribution, "step", None) or getattr(distribution, "q", None)
    is_logarithmic = type(distribution).__name__.endswith("LogUniformDistribution")
    if step is None or is_logarithmic:
        spread = [low + (high - low) * share / 100 for share in range(101)]
        if is_logarithmic:
            spread = [low * (high / low) ** (share / 100) for share in range(101)]
        whole = isinstance(low, int) and isinstance(high, int)
        return list(dict.fromkeys(round(each) if whole else each for each in spread))
    steps = int((high - low) / step + 1e-9)
    taken = dict.fromkeys(round(steps * share / 100) for share in range(101))
    return [low + number * step for number in taken]
