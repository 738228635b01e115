"""A sweeper that searches asks for its next cells by what came of the last ones.

It is composed twice. For the plan stands in its place one that asks for all that it may ask for, so
that every cell is checked before any runs (`Space`); then it is asked itself, and each batch of
cells that it wants is measured before it goes on (`AskingLauncher`). It is told numbers, smaller is
better in each, and draws its chances from the run's `seed`, so that a search repeats: one that was
cut short asks for the same cells again, and those that are there are read from their records.
"""

from __future__ import annotations

import itertools
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, IntervalSweep, Override, RangeSweep
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from runner.composing.copies import Composed, CopyingLauncher
from runner.composing.experiments import as_yaml
from runner.composing.translation import first_line
from runner.errors import BadInput, RunnerError
from runner.judging.objective import Objective
from runner.plan import Planned, Search

MOST_CHECKED = 1000
"""Cells of a search that are composed before it begins, 2 ms each. Where it may ask for more, each
value is composed once, beside the first values of all else."""
MOST_VALUES = 100
"""Of a field's, its first and last among them."""

Ask = Callable[[Sequence[Planned]], Sequence[Sequence[float]]]
"""Measures cells; of each, what the sweeper is told."""
Cell = Callable[[int, Composed, Sequence[str]], Planned]

_OURS = ("direction", "max_failure_rate", "storage", "study_name", "search_space")
"""Of Optuna's, what the runner says or has another way for."""


def searches(config: DictConfig) -> bool:
    """Whether its sweeper is another than Hydra's own, which walks a grid."""
    return not str(config.hydra.sweeper._target_).endswith(".BasicSweeper")


def prepare(config: DictConfig) -> Search:
    """Tell the sweeper what to look for and where its chances come from; what it goes by then."""
    sweeper = config.hydra.sweeper
    for name in _OURS:
        if name in sweeper and sweeper[name] not in (None, 0.0) and not _is_default(sweeper, name):
            raise BadInput(f"hydra.sweeper.{name}: is the runner's to say.", _INSTEAD[name])
    for name in ("n_trials", "n_jobs"):
        if sweeper.get(name, 1) < 1:
            raise BadInput(f"hydra.sweeper.{name}: {sweeper[name]} is out of range.", "From 1 on.")
    if str((sweeper.get("sampler") or {}).get("_target_")).endswith(".GridSampler"):
        raise BadInput(
            "hydra/sweeper/sampler=grid: walks a grid in an order that does not repeat.",
            "Leave hydra/sweeper and search out: a sweep walks the whole grid.",
        )
    objective = Objective.of(OmegaConf.to_container(config.search, resolve=True))
    with open_dict(sweeper):
        if "direction" in sweeper:
            many = len(objective.metrics)
            sweeper.direction = ["minimize"] * many if many > 1 else "minimize"
        sampler = sweeper.get("sampler")
        if isinstance(sampler, DictConfig) and sampler.get("seed", 0) is None:
            sampler.seed = config.seed
    kept = OmegaConf.to_container(sweeper, resolve=True, enum_to_str=True)
    assert isinstance(kept, dict)
    most = kept.pop("n_trials", None)  # more of them go on with the same search
    return Search(
        most, sweeper.get("n_jobs", 1), True, as_yaml({str(k): v for k, v in kept.items()})
    )


def _is_default(sweeper: DictConfig, name: str) -> bool:
    return name == "direction" and getattr(sweeper.direction, "name", "") == "minimize"


_INSTEAD = {
    "direction": "search.objectives names metrics, and each has its better direction.",
    "max_failure_rate": "A cell that fails is a result, and no end.",
    "storage": "The records are; `resume=latest` goes on with a search.",
    "study_name": "The sweep's folder names it.",
    "search_space": "Say hydra.sweeper.params in an experiment's file, or KEY=A,B in words.",
}


class Space(Sweeper):  # type: ignore[misc]
    """Asks at once for all that a search may ask for, or for a sample that has every value."""

    def __init__(self, launcher: Launcher, overrides: Sequence[Override]) -> None:
        self._launcher = launcher
        self._said = {each.get_key_element(): _choices(each) for each in overrides}
        self._many = math.prod(map(len, self._said.values()))
        self.whole = self._many <= MOST_CHECKED and not any(
            isinstance(each.value(), IntervalSweep) for each in overrides
        )

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None: ...

    def sweep(self, arguments: list[str]) -> None:
        words = [[f"{key}={value}" for value in values] for key, values in self._said.items()]
        if self._many <= MOST_CHECKED:
            cells = list(itertools.product(*words))
        else:
            words = [[*each[:: math.ceil(len(each) / MOST_VALUES)], each[-1]] for each in words]
            first = [each[0] for each in words]
            cells = [tuple(first)] + [
                (*first[:place], word, *first[place + 1 :])
                for place, each in enumerate(words)
                for word in each[1:]
            ]
        self._launcher.launch(cells, 0)


def space(config: DictConfig, launcher: Launcher) -> Space:
    """Of the sweeper's own parameters, and of the words, which come before them."""
    params = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
    parsed = OverridesParser.create().parse_overrides([*params, *config.hydra.overrides.task])
    return Space(launcher, parsed)


def up_to_the_last(word: str) -> str:
    """A range as Optuna reads one, upwards and with its stop in it; to Hydra, and to a grid, it is
    not. However long it is, it is not gone through."""
    if "range(" not in word or word.startswith("-"):
        return word
    override = OverridesParser.create().parse_override(word)
    value = override.value()
    if not isinstance(value, RangeSweep) or value.shuffle or not value.step:
        return word
    said = (value.start, value.stop, value.step)
    number = int if all(isinstance(each, int) for each in said) else float
    first, stop, step = (Decimal(each) for each in said if each is not None)
    steps = math.ceil((stop - first) / step) - 1
    if steps < 0:
        return word
    low, high = map(number, sorted((first, first + steps * step)))
    key = override.get_key_element()
    return f"{key}=range({low},{high},{number(abs(step))})" if steps else f"{key}={low}"


def end_ranges(config: DictConfig) -> None:
    """The same for those that an experiment's file says."""
    params = config.hydra.sweeper.get("params") or {}
    for key, said in params.items():
        params[key] = up_to_the_last(f"{key}={said}").partition("=")[2]


def _choices(override: Override) -> list[str]:
    """Its values as words; of an interval, its ends."""
    value = override.value()
    if isinstance(value, IntervalSweep):
        return [str(value.start), str(value.end)]
    if isinstance(value, Glob):
        raise BadInput(
            f"{override.input_line}: a search takes values, and no pattern of them.",
            "Name them: KEY=A,B.",
        )
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    return list(itertools.islice(override.sweep_string_iterator(), 10 * MOST_CHECKED))


class AskingLauncher(CopyingLauncher):
    """Has each batch measured, and returns to the sweeper what came of it. A cell that it asks for
    once more is the one that is there."""

    def __init__(self, cell: Cell, ask: Ask) -> None:
        self._cell = cell
        self._ask = ask
        self._known: dict[str, Planned] = {}

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        wanted = []
        for words in job_overrides:
            said, number = [*map(_spelled, words)], len(self._known)
            cell = self._cell(number, self._copies.cell(number, said), said)
            wanted.append(self._known.setdefault(cell.experiment.cell, cell))
        told = self._ask(wanted)
        return [
            JobReturn(
                status=JobStatus.COMPLETED,
                _return_value=values[0] if len(values) == 1 else list(values),
            )
            for values in told
        ]


def _spelled(word: str) -> str:
    """Sweepers write values as Python does."""
    key, equals, value = word.partition("=")
    return key + equals + {"True": "true", "False": "false", "None": "null"}.get(value, value)


@contextmanager
def quietly() -> Iterator[None]:
    """Without a library's warnings on the way; `hush` has the rest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def hush() -> None:
    """Optuna says on stderr whatever it does, from its import on."""
    logging.getLogger("optuna").setLevel(logging.CRITICAL)


def refused(error: Exception) -> RunnerError:
    """Whatever a sweeper raises, by itself or as it is made."""
    if isinstance(error, RunnerError):
        return error
    return BadInput(
        f"hydra/sweeper: gave up ({type(error).__name__}: {first_line(error)[:300]}).",
        "Its fields are hydra.sweeper.NAME, those of its sampler hydra.sweeper.sampler.NAME.",
    )
