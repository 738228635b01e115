"""A sampler for Optuna that finds the front of a grid in few cells.

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

from runner.analysis.objective import WORST

Point = tuple[Any, ...]
Array = NDArray[np.float64]

MOST_CELLS = 1000
"""Cells to choose from: of a larger space as many are drawn anew for each choice."""
_DRAWS = 128
_ALIKE = 0.8
"""How much two cells that differ in one choice have in common."""
_NOISE = 0.05
"""The error of a measured value, as a share of the spread of all."""


class FrontSampler(BaseSampler):  # type: ignore[misc]
    """Draws the first cells by chance, until one has been measured."""

    def __init__(self, seed: int | None = None) -> None:
        self._chance = np.random.default_rng(seed)
        self._asked: dict[Point, None] = {}
        """All that was ever asked for, as not all of it has its figures yet."""

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> Mapping[str, BaseDistribution]:
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return dict(complete[0].distributions) if complete else {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        known = {
            tuple(trial.params[key] for key in search_space): trial.values for trial in complete
        }
        asked = {*known, *self._asked}
        left = [point for point in self._list_candidates(search_space) if point not in asked]
        chosen = next(iter(known))
        if left:
            positions = _place_cells([*known, *left], search_space)
            chances = estimate_front_chances(positions, np.array([*known.values()]), self._chance)
            chosen = left[int(np.argmax(chances))]
        self._asked[chosen] = None
        return dict(zip(search_space, chosen, strict=True))

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        choices = _list_values(param_distribution)
        return choices[int(self._chance.integers(len(choices)))]

    def _list_candidates(self, space: Mapping[str, BaseDistribution]) -> list[Point]:
        """Return all cells, or some drawn by chance where there are many."""
        values = [_list_values(distribution) for distribution in space.values()]
        if math.prod(map(len, values)) <= MOST_CELLS:
            return list(itertools.product(*values))
        drawn = [
            tuple(choices[int(self._chance.integers(len(choices)))] for choices in values)
            for _ in range(MOST_CELLS)
        ]
        return list(dict.fromkeys(drawn))


def estimate_front_chances(positions: Array, known: Array, chance: np.random.Generator) -> Array:
    """Return how often each cell without figures is on the front, of many draws.

    `positions` has a row a cell, the measured ones first; `known` their figures, a column each,
    smaller is better.
    """
    values = _standardize_figures(known)
    # The kernel: two cells are the less alike the more choices they differ in.
    distances = np.abs(positions[:, None, :] - positions[None, :, :]).sum(axis=-1)
    kernel = _ALIKE**distances
    many = len(values)
    measured = kernel[:many, :many] + _NOISE**2 * np.eye(many)
    across = kernel[many:, :many]
    # What the measured cells say of the others: mean and covariance of the posterior.
    mean = across @ np.linalg.solve(measured, values)
    covariance = kernel[many:, many:] - across @ np.linalg.solve(measured, across.T)
    root = np.linalg.cholesky(covariance + 1e-6 * np.eye(len(covariance)))
    times = np.zeros(len(covariance))
    for _ in range(_DRAWS):
        drawn = mean + root @ chance.normal(size=mean.shape)
        times += np.logical_not(_find_dominated(drawn, np.concatenate([values, drawn])))
    return times / _DRAWS


def _standardize_figures(known: Array) -> Array:
    """Return each column about 0 and of spread 1, on a logarithmic scale where it has one.

    What came to no figures is worse than the worst that did, by a spread.
    """
    columns = []
    for column in known.T:
        good = column[column < WORST]
        if not len(good):
            columns.append(np.zeros(len(column)))
            continue
        scaled = column
        if (good > 0).all():
            scaled = np.log(column)
        elif (good < 0).all():  # larger is better, told with its sign turned
            scaled = -np.log(np.where(column < WORST, -column, 1.0))
        fine = scaled[column < WORST]
        spread = float(fine.std()) or 1.0
        filled = np.where(column < WORST, scaled, fine.max() + spread)
        columns.append((filled - fine.mean()) / spread)
    return np.stack(columns, axis=-1)


def _find_dominated(points: Array, others: Array) -> NDArray[np.bool_]:
    """Return of each point whether another is as good in every column, and better in one."""
    as_good = (others[:, None, :] <= points[None, :, :]).all(axis=-1)
    better = (others[:, None, :] < points[None, :, :]).any(axis=-1)
    return np.asarray((as_good & better).any(axis=0))


def _place_cells(cells: Sequence[Point], space: Mapping[str, BaseDistribution]) -> Array:
    """Return a row a cell, as far apart in its columns as two cells differ.

    Numbers differ by their share of the range, on the scale of their order, its ends by 2; names
    by 1, over several columns.
    """
    columns: list[list[float]] = []
    for number, distribution in enumerate(space.values()):
        values = [cell[number] for cell in cells]
        known = _list_values(distribution)
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
            rank = {value: place for place, value in enumerate(sorted(set(known)))}
            columns.append([2.0 * rank.get(value, 0) / max(1, len(rank) - 1) for value in values])
        else:
            columns += [[0.5 * (cell_value == value) for cell_value in values] for value in known]
    return np.array(columns).T


def _list_values(distribution: BaseDistribution) -> list[Any]:
    """Return all values, or of a long range a hundred."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    low, high = distribution.low, distribution.high
    step = distribution.step
    if step is None or distribution.log:
        spread = [low + (high - low) * share / 100 for share in range(101)]
        if distribution.log:
            spread = [low * (high / low) ** (share / 100) for share in range(101)]
        whole = isinstance(low, int) and isinstance(high, int)
        return list(dict.fromkeys(round(value) if whole else value for value in spread))
    steps = int((high - low) / step + 1e-9)
    taken = dict.fromkeys(round(steps * share / 100) for share in range(101))
    return [low + number * step for number in taken]
