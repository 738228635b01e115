"""A search as a source of cells: Optuna is asked for the next few by what came of the last ones.

It is told numbers, smaller is better in each; a cell that ran out of memory, failed, or is outside
the limits is told as worse than all others, and the search goes on. Its chances come from the run's
seed, so that a search repeats: one that was cut short asks for the same cells again, and those that
have a record answer from it.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from runner.analysis.objective import Objective
from runner.cell import Cell, Choices, Interval, Plan
from runner.engine.grid import make_question
from runner.engine.requests import Evidence, Request
from runner.engine.run import Run
from runner.errors import BadInput, RunnerError


@dataclass
class SearchSource:
    """Asks for `n_jobs` cells at a time, `n_trials` in all.

    A cell that Optuna asks for once more is the one that is there.
    """

    plan: Plan
    words: Sequence[str] = ()
    """As they were typed."""
    must_have_device: bool = False
    _cells: dict[str, Cell] = field(default_factory=dict, init=False)
    _values: dict[str, list[float]] = field(default_factory=dict, init=False)
    """The numbers that Optuna gets for each cell that has a record."""
    _batch: list[tuple[Any, str]] = field(default_factory=list, init=False)
    """Each of Optuna's trials and its cell, until all of them have their values."""

    def __post_init__(self) -> None:
        """Raise `BadInput` where Optuna, or its sampler, does not take what the words say."""
        assert self.plan.search is not None
        self._search = self.plan.search
        self._objective = Objective(self._search.metrics, self._search.limits)
        self._left = self._search.n_trials
        directions = ["minimize"] * len(self._search.metrics)
        with _refuse_errors():
            import optuna

            optuna.logging.set_verbosity(logging.CRITICAL)  # it tells on stderr whatever it does
            sampler = _build_object(self._search.sampler)
            self._study = optuna.create_study(sampler=sampler, directions=directions)

    @property
    def question(self) -> Mapping[str, Any]:
        """Return the objective, the way and the cells; `n_trials` may be more next time."""
        return {
            **make_question(self.plan),
            "search": self._search.to_json(),
            "words": list(self.words),
        }

    @property
    def seed(self) -> int:
        return self.plan.cells[0].experiment.seed

    def ask(self) -> Sequence[Request]:
        """Return the cells to measure next; none while one of the last is out, and at the end."""
        while not self._batch and self._left:
            many = min(self._left, self._search.n_jobs)
            self._left -= many
            with _refuse_errors():
                trials = [self._study.ask() for _ in range(many)]
                self._batch = [(trial, self._suggest_cell(trial)) for trial in trials]
            wanted = dict.fromkeys(name for _, name in self._batch if name not in self._values)
            if wanted:
                return [self._make_request(self._cells[name]) for name in wanted]
            self._tell_study()
        return ()

    def tell(self, run: Run) -> None:
        """Take the record of a cell that was asked for; Optuna hears of a batch as a whole."""
        self._values[run.experiment.cell] = self._objective.score(run.get_record())
        if all(name in self._values for _, name in self._batch):
            self._tell_study()

    def _make_request(self, cell: Cell) -> Request:
        return Request(
            cell,
            Evidence.from_measure(cell.experiment.measure),
            place=str(cell.number),
            swept={key: cell.said.get(key) for key in self.plan.swept},
        )

    def _suggest_cell(self, trial: Any) -> str:
        point = {
            key: _suggest_value(trial, key, choices) for key, choices in self._search.space.items()
        }
        cell = self._search.compose(len(self._cells), point)
        self._cells.setdefault(cell.experiment.cell, cell)
        return cell.experiment.cell

    def _tell_study(self) -> None:
        with _refuse_errors():
            for trial, name in self._batch:
                self._study.tell(trial, self._values[name])
        self._batch = []


def _suggest_value(trial: Any, key: str, dimension: Choices | Interval) -> Any:
    if isinstance(dimension, Choices):
        return trial.suggest_categorical(key, dimension.values)
    low, high, step = dimension.low, dimension.high, dimension.step
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(key, low, high, step=step or 1, log=dimension.is_log)
    return trial.suggest_float(key, low, high, step=step, log=dimension.is_log)


def _build_object(fields: Any) -> Any:
    """Return what a configuration describes: where it has a `_target_`, one of that class."""
    if not isinstance(fields, Mapping):
        return fields
    built = {str(name): _build_object(value) for name, value in fields.items()}
    target = built.pop("_target_", None)
    if target is None:
        return built
    module, _, name = str(target).rpartition(".")
    return getattr(importlib.import_module(module), name)(**built)


@contextmanager
def _refuse_errors() -> Iterator[None]:
    """Raise whatever Optuna raises meanwhile as `BadInput`, and let it warn of nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except RunnerError:
        raise
    except ModuleNotFoundError as error:
        raise BadInput(
            f"hydra/sweeper=optuna: {error.name} is not installed.",
            "Install it: pip install 'tf-memory-runner[optuna]'.",
        ) from error
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise BadInput(
            "hydra/sweeper: the search stopped with an error "
            f"({type(error).__name__}: {first[:300]}).",
            "Its fields are hydra.sweeper.NAME, those of its sampler hydra.sweeper.sampler.NAME.",
        ) from error
