"""A search, `hydra/sweeper=optuna`: what it looks for, and all cells that it may ask for.

Optuna is asked in `runner/search/`. Here the words become plain descriptions of what each field may
be, every cell that may be asked for is composed before any runs, and what is asked for becomes a
cell.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import yaml
from hydra.core.override_parser.types import Glob, IntervalSweep, Override, RangeSweep, Transformer
from omegaconf import DictConfig, OmegaConf

from runner import paths
from runner.analysis.objective import Objective
from runner.cell import Cell, Choices, Interval, SearchSpec
from runner.compose.words import check_range
from runner.config import Count, build_checked
from runner.errors import BadInput

_SAMPLER = "hydra/sweeper/sampler"

MOST_CHECKED = 1000
"""Cells of a search that are composed before it begins. Where it may ask for more, each value is
composed once, beside the first values of all else."""
MOST_VALUES = 100
"""Values of one field that are composed, its first and last among them."""


@dataclass(frozen=True)
class _SweeperFields:
    """The fields that the sweeper takes; `conf/hydra/sweeper/optuna.yaml` has the defaults."""

    n_trials: Count
    n_jobs: Count
    sampler: dict[str, Any]
    params: dict[str, Any] | None


def read_search(
    sweep: DictConfig, overrides: Sequence[Override], compose: Callable[[int, Sequence[str]], Cell]
) -> tuple[SearchSpec, list[list[str]]]:
    """Return the search that the words ask for, and the words of each cell to check before it."""
    given: Any = OmegaConf.to_container(sweep.hydra.sweeper, resolve=True)
    fields = build_checked(_SweeperFields, given, "hydra.sweeper")
    _check_sampler(fields.sampler, str(sweep.hydra.runtime.choices.get(_SAMPLER)))
    if fields.sampler.get("seed", 0) is None:
        fields.sampler["seed"] = sweep.seed  # the run's own, so that a search repeats
    objective = Objective.read(OmegaConf.to_container(sweep.search, resolve=True))
    by_key = {override.get_key_element(): override for override in overrides}
    space = {
        key: read_space(override)
        for key, override in by_key.items()
        if override.is_sweep_override()
    }

    def write_words(point: Mapping[str, Any]) -> list[str]:
        return [
            _write_word(key, space[key], point[key])
            if key in space
            else f"{key}={override.get_value_element_as_str()}"
            for key, override in by_key.items()
        ]

    values = {key: _list_values(choices) for key, choices in space.items()}
    many = math.prod(map(len, values.values()))
    endless = any(isinstance(choices, Interval) and not choices.step for choices in space.values())
    search = SearchSpec(
        metrics=objective.metrics,
        limits=objective.limits,
        space=space,
        n_trials=fields.n_trials,
        n_jobs=fields.n_jobs,
        sampler=fields.sampler,
        is_whole=many <= MOST_CHECKED and not endless,
        compose=lambda number, point: compose(number, write_words(point)),
    )
    if many <= MOST_CHECKED:
        points = [
            dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())
        ]
    else:
        points = _sample_points(values)
    return search, [write_words(point) for point in points]


def _sample_points(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the first values together, and every other value of a field beside them."""
    first = {key: choices[0] for key, choices in values.items()}
    points = [first]
    for key, choices in values.items():
        taken = dict.fromkeys([*choices[:: math.ceil(len(choices) / MOST_VALUES)], choices[-1]])
        points += [{**first, key: value} for value in taken if value != choices[0]]
    return points


def _check_sampler(fields: Mapping[str, Any], name: str) -> None:
    """Refuse a value of another type than the field's in the sampler's file."""
    file = paths.find_choices(_SAMPLER).get(name)
    defaults = yaml.safe_load(file.read_text()) if file else {}
    for key, default in defaults.items():
        value = fields.get(key)
        kind = (int, float) if type(default) is float else type(default)
        if default is not None and not (
            isinstance(value, kind) and isinstance(value, bool) == isinstance(default, bool)
        ):
            raise BadInput(
                f"hydra.sweeper.sampler.{key} can't be {value}.", f"Its own value is {default}."
            )


def read_space(override: Override) -> Choices | Interval:
    """Return what a field may be. A range is read as Optuna does, upwards and with its last value;
    however long it is, it is not gone through."""
    value, word = override.value(), str(override.input_line)
    if isinstance(value, Glob):
        raise BadInput(
            f"{word}: a search takes values, and no pattern of them.", "Name them: KEY=A,B."
        )
    if isinstance(value, IntervalSweep):
        return Interval(value.start, value.end, None, "log" in value.tags)
    if not isinstance(value, RangeSweep) or value.shuffle:
        return Choices(tuple(override.sweep_iterator(transformer=Transformer.encode)))
    check_range(word, value)
    bounds = (value.start, value.stop, value.step)
    first, stop, step = map(Decimal, bounds)
    last = math.ceil((stop - first) / step) - 1
    if last < 0:
        raise BadInput(f"{word} has no values.", "Write range(START,STOP,STEP).")
    number = int if all(isinstance(bound, int) for bound in bounds) else float
    low, high = map(number, sorted((first, first + last * step)))
    return Interval(low, high, number(abs(step))) if last else Choices((low,))


def _list_values(space: Choices | Interval) -> list[Any]:
    """Return its values, of a long range the first; of an interval, its ends."""
    if isinstance(space, Choices):
        return list(space.values)
    if not space.step:
        return [space.low, space.high]
    count = round((space.high - space.low) / space.step) + 1
    taken = range(count) if count <= 10 * MOST_CHECKED else [*range(10 * MOST_CHECKED), count - 1]
    return [space.low + number * space.step for number in taken]


def _write_word(key: str, space: Choices | Interval, value: Any) -> str:
    """Return a value as Hydra reads it; one between two steps of a range is the nearer of them."""
    if isinstance(space, Interval) and space.step:
        steps = round((value - space.low) / space.step)
        value = type(space.step)(Decimal(space.low) + steps * Decimal(space.step))
    return f"{key}={str(value).lower() if isinstance(value, bool) else value}"
