"""From the words on the command line to a plan.

Hydra plans and nothing more: its sweeper takes the words apart into cells, and in the launcher's
place stands one that notes each cell, as `copies` makes it, and runs nothing. Running them is the
engine's.
Where a launcher that distributes was asked for, `launch` has the same words taken apart once more,
and each cell composed in the job that runs it; where a sweeper that searches, `search` has it asked
for its cells, batch by batch. By then the plan has been checked.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, read_write

from runner import places
from runner.composing import GROUPS, launchers, searching
from runner.composing.copies import Composed, CopyingLauncher
from runner.composing.experiments import (
    as_word,
    experiment_from,
    set_field,
    unsupported,
)
from runner.composing.own import own_folders, with_own_folders
from runner.composing.translation import first_line, translated
from runner.composing.words import check_swept, checked, no_choice
from runner.errors import BadInput, RunnerError
from runner.judging.objective import Objective
from runner.plan import Plan, Planned, Search
from runner.sent import Sent


def plan(words: Sequence[str], sweep_folder: Path) -> Plan:
    """Compose every cell and check it. Raises `BadInput`; leaves nothing behind when it does."""
    arguments = _into(sweep_folder, checked(with_own_folders(words)))
    made = [path for path in (sweep_folder, *sweep_folder.parents) if not path.exists()]
    cells: list[Planned] = []
    problems: list[RunnerError] = []

    def note(config: DictConfig) -> None:
        try:
            cells.append(_planned(config))
        except RunnerError as problem:
            problems.append(problem)  # raised here, Hydra would comment on it

    try:
        try:
            with translated(), _as_command_line(arguments), _noting_launcher(cells) as asked_for:
                _hydra(note)
        except RunnerError as problem:
            raise (problems or [problem])[0] from None
        if problems:
            raise problems[0]
        is_sweep = bool(asked_for.launchers)
        _check_objective(cells, asked_for.search)
        if is_sweep and not cells:
            raise BadInput(
                "the sweep has no cells.",
                "Give each swept field at least one value; a glob() may match nothing.",
            )
        if not is_sweep and cells and not cells[0].experiment.supported:
            raise unsupported(cells[0].experiment)
    finally:
        _discard(made)
    return Plan(
        cells=tuple(cells),
        is_sweep=is_sweep,
        resume=_one_for_all(cells),
        swept=_swept(cells),
        launcher=asked_for.launchers.pop() if is_sweep else None,
        search=asked_for.search,
    )


def _check_objective(cells: Sequence[Planned], search: Search | None) -> None:
    """A search has one, which its cells can meet; what is no search has none."""
    if not cells:
        return
    objective = Objective.of(cells[0].search)
    if search is None:
        if objective.is_said:
            raise BadInput(
                "search: only a sweeper that searches uses it, and none is chosen.",
                "Say -m hydra/sweeper=optuna as well.",
            )
        return
    for measure in {cell.experiment.measure for cell in cells}:
        objective.check(measure)


def _planned(config: DictConfig) -> Planned:
    """The cell that Hydra is composing, or, in a launcher's job, has composed."""
    hydra_config = HydraConfig.get()
    is_sweep = hydra_config.mode is not None and hydra_config.mode.name == "MULTIRUN"
    number = int(hydra_config.job.num) if is_sweep else 0
    with translated():
        composed = Composed.of(config, str(hydra_config.runtime.choices.get("scenario")))
        return _cell(number, composed, hydra_config.overrides.task)


def _cell(
    number: int, composed: Composed, words: Sequence[str], sent: Sent | None = None
) -> Planned:
    return Planned(
        number=number,
        experiment=experiment_from(composed.values, composed.scenario, sent),
        overrides=tuple(words),
        composed=composed.text,
        resume=composed.values.get("resume"),
        search=composed.values.get("search") or {},
    )


def launch(
    words: Sequence[str],
    sweep_folder: Path,
    wanted: Collection[int],
    task: Callable[[Planned, Path, str], None],
    enter: Callable[[], None],
) -> dict[int, str]:
    """Have the launcher that the words ask for call `task` with each wanted cell, the sweep's
    folder and its own name, wherever that is; `enter` is called there before anything of the user's
    is looked for. Returns why of those whose job went wrong, once all have ended."""

    def job(config: DictConfig) -> None:
        enter()
        hydra_config = HydraConfig.get()
        with read_write(hydra_config):  # launchers number what they get, which may be a part
            hydra_config.job.num = int(hydra_config.sweep.subdir)
        launcher = str(hydra_config.runtime.choices.get("hydra/launcher"))
        task(_planned(config), Path(hydra_config.sweep.dir), launcher)

    problems: dict[int, str] = {}

    def handing(launcher: Launcher, *_: object) -> Launcher:
        return _HandingLauncher(launcher, wanted, problems)

    arguments = _into(sweep_folder, checked(with_own_folders(words)))
    with _as_command_line(arguments), _in_the_launchers_place(handing):
        _hydra(job)
    return problems


def search(words: Sequence[str], sweep_folder: Path, ask: searching.Ask) -> None:
    """Have the sweeper that the words ask for search; `ask` has the cells measured."""

    def asking(
        _: Launcher, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> Launcher:
        launcher = searching.AskingLauncher(_cell, ask)
        launcher.setup(hydra_context=hydra_context, task_function=task_function, config=config)
        return launcher

    def prepared(config: DictConfig, make: Callable[[], Sweeper]) -> Sweeper:
        searching.prepare(config)
        searching.end_ranges(config)
        sweeper = make()
        searching.hush()
        return sweeper

    known = map(searching.up_to_the_last, checked(with_own_folders(words)))
    arguments = _into(sweep_folder, [*known])
    try:
        with (
            searching.quietly(),
            _as_command_line(arguments),
            _in_the_launchers_place(asking, prepared),
        ):
            _hydra(lambda _: None)
    except Exception as error:
        raise searching.refused(error) from error


def _into(folder: Path, words: list[str]) -> list[str]:
    """The words, and where sweeps go; beside the first override, as flags must not part them."""
    path = str(folder).replace("'", "\\'")
    first = next((i for i, word in enumerate(words) if not word.startswith("-") and "=" in word), 0)
    return [*words[:first], f"hydra.sweep.dir='{path}'", *own_folders(), *words[first:]]


def _hydra(task: Callable[[DictConfig], None]) -> None:
    hydra.main(config_path=str(places.conf()), config_name="config", version_base="1.3")(task)()


class _NotingLauncher(CopyingLauncher):
    """Notes each cell as Hydra's own launcher would compose it, and keeps nothing else (Hydra's own
    keeps two copies of each configuration, 0.1 MB a cell)."""

    def __init__(self, noted: list[Planned]) -> None:
        self._noted = noted

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        for number, words in enumerate(job_overrides, initial_job_idx):
            self._noted.append(_cell(number, self._copies.cell(number, words), words))
        return []


class _HandingLauncher(Launcher):  # type: ignore[misc]
    """Hands the wanted cells to the launcher in whose place it stands, each with its number."""

    def __init__(
        self, launcher: Launcher, wanted: Collection[int], problems: dict[int, str]
    ) -> None:
        self._launcher, self._wanted, self._problems = launcher, wanted, problems

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """The other has been set up."""

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        jobs = {
            number: [*words, f"hydra.sweep.subdir='{number}'"]
            for number, words in enumerate(job_overrides, initial_job_idx)
            if number in self._wanted
        }
        if jobs:
            with launchers.patient(self._launcher):
                ends = self._launcher.launch(list(jobs.values()), initial_job_idx)
            for number, end in zip(jobs, ends, strict=True):
                if problem := launchers.problem_of(end):
                    self._problems[number] = problem
        return []


@dataclass
class _AskedFor:
    """What a sweep is to be run by."""

    launchers: set[str | None] = field(default_factory=set)
    """The launcher, None for Hydra's own; empty where nothing is swept."""
    search: Search | None = None


@contextmanager
def _noting_launcher(noted: list[Planned]) -> Iterator[_AskedFor]:
    """Let Hydra's sweepers launch nothing, but note their cells; of one that searches, all that it
    may ask for. What it yields receives what was asked for beside them."""
    seen = _AskedFor()
    notes = _NotingLauncher(noted)

    def noting(
        _: Launcher, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> Launcher:
        name = str(config.hydra.runtime.choices.get("hydra/launcher"))
        seen.launchers.add(
            None if config.hydra.launcher._target_.endswith(".BasicLauncher") else name
        )
        notes.setup(hydra_context=hydra_context, task_function=task_function, config=config)
        return notes

    def walking(config: DictConfig, make: Callable[[], Sweeper]) -> Sweeper:
        if not searching.searches(config):
            check_swept(config.hydra.sweeper.params or {}, config.hydra.overrides.task)
            return make()
        search = searching.prepare(config)
        try:
            with searching.quietly():
                make()  # which may refuse its own fields
        except Exception as error:
            raise searching.refused(error) from error
        if seen.launchers != {None}:
            raise BadInput(
                "hydra/launcher: a search runs its cells here; their results decide the next ones.",
                "Leave hydra/launcher out, or sweep a grid.",
            )
        space = searching.space(config, notes)
        seen.search = replace(search, whole=space.whole)
        return space

    with _in_the_launchers_place(noting, walking):
        yield seen


@contextmanager
def _in_the_launchers_place(
    replaced: Callable[[Launcher, HydraContext, TaskFunction, DictConfig], Launcher],
    made: Callable[[DictConfig, Callable[[], Sweeper]], Sweeper] = lambda _, make: make(),
) -> Iterator[None]:
    """Let Hydra's sweepers use another launcher than they were asked to, and be `made` in another
    way. (Hydra takes both from one namespace package alone, and none can be named in words without
    losing the user's.)

    Sweepers compose every cell once to see that it can be, then have it launched. Here that first
    time is left out: where cells are noted composing them is all that is done, and it takes half of
    a large sweep's planning; where they are handed out it has been done."""
    launchers_of, sweepers_of = Plugins.instantiate_launcher, Plugins.instantiate_sweeper

    def launcher(
        self: Plugins, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> Launcher:
        try:
            launcher = launchers_of(self, hydra_context, task_function, config)
        except (ImportError, RuntimeError) as error:
            raise BadInput(f"hydra.launcher: {first_line(error)}", _INSTALL_LAUNCHER) from error
        return replaced(launcher, hydra_context, task_function, config)

    def sweeper(self: Plugins, *, config: DictConfig, **context: Any) -> Sweeper:
        return made(config, lambda: sweepers_of(self, config=config, **context))

    validate = Sweeper.validate_batch_is_legal
    Plugins.instantiate_launcher, Plugins.instantiate_sweeper = launcher, sweeper
    Sweeper.validate_batch_is_legal = lambda *_: None
    try:
        yield
    finally:
        Plugins.instantiate_launcher, Plugins.instantiate_sweeper = launchers_of, sweepers_of
        Sweeper.validate_batch_is_legal = validate


_INSTALL_LAUNCHER = "Is it installed? pip install -e '.[joblib]', '.[slurm]' or '.[ray]'."


def _one_for_all(cells: Sequence[Planned]) -> str | None:
    """What to resume, if anything; it, the store and how many trials run at once are the sweep's,
    not a cell's."""
    for name, said in (
        ("resume", {cell.resume for cell in cells}),
        ("tracking", {cell.experiment.tracking for cell in cells}),
        ("measure.side_by_side", {cell.experiment.measure.side_by_side for cell in cells}),
    ):
        if len(said) > 1:
            raise BadInput(f"{name}: a sweep has one for all its cells.", f"Give {name} one value.")
    return cells[0].resume if cells else None


def cells(wanted: Sequence[Mapping[str, Any]], sent: Sent | None = None) -> list[Planned]:
    """Cells that are told as mappings, `{"scenario": "tape", "scenario.depth": 4}`, each checked as
    words are; of the function that is `sent`, if one is. Hydra composes every choice of groups
    once, 80 ms each; fields are set in copies."""
    bases: dict[tuple[str, ...], DictConfig] = {}
    found = []
    with translated(), hydra.initialize_config_dir(str(places.conf()), version_base="1.3"):
        for number, fields in enumerate(wanted):
            for key, value in fields.items():
                if key in GROUPS and str(value) not in places.choices(key):
                    raise no_choice(key, as_word(value))
            groups = tuple(f"{key}={value}" for key, value in fields.items() if key in GROUPS)
            if groups not in bases:
                bases[groups] = hydra.compose("config", [*own_folders(), *groups])
            config = bases[groups].copy()
            for key, value in fields.items():
                if key not in GROUPS:
                    set_field(config, key, value)
            words = [f"{key}={as_word(value)}" for key, value in fields.items()]
            cell = _cell(number, Composed.of(config, str(fields.get("scenario"))), words, sent)
            if not cell.experiment.supported:
                raise unsupported(cell.experiment)
            found.append(cell)
    return found


def changed(cell: Planned, number: int, fields: Mapping[str, Any]) -> Planned:
    """A cell with other values in some of its fields, and another place in the plan."""
    with translated():
        config = OmegaConf.create(cell.composed)
        assert isinstance(config, DictConfig)
        for key, value in fields.items():
            set_field(config, key, value)
        words = [f"{key}={as_word(value)}" for key, value in fields.items()]
        composed = Composed.of(config, cell.experiment.scenario_name)
        return _cell(number, composed, [*cell.overrides, *words], cell.experiment.sent)


def _swept(cells: Sequence[Planned]) -> tuple[str, ...]:
    """The keys whose overrides differ between cells, in the order that Hydra took them; of a whole
    mapping, its entries that differ."""
    values: dict[str, set[str]] = {}
    for cell in cells:
        known = cell.experiment.fields
        for word in cell.overrides:
            key, _, value = word.lstrip("+").partition("=")
            whole = key.startswith("scenario.")
            entries = [name for name in known if whole and name.startswith(f"{key}.")]
            if not entries:
                values.setdefault(key, set()).add(value)
            for name in entries:
                values.setdefault(name, set()).add(str(known[name]))
    return tuple(key for key, seen in values.items() if len(seen) > 1)


@contextmanager
def _as_command_line(words: Sequence[str]) -> Iterator[None]:
    """`hydra.main` reads `sys.argv`, and lets exceptions through only under HYDRA_FULL_ERROR."""
    kept_words, kept_flag = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = ["runner", *words]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = kept_words
        if kept_flag is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = kept_flag


def _discard(made: Sequence[Path]) -> None:
    """Hydra makes the sweep's folder before it has checked the sweep; what runs makes it anew."""
    for path in made[:1]:
        shutil.rmtree(path, ignore_errors=True)
    for parent in made[1:]:
        with suppress(OSError):  # something else is in it by now
            parent.rmdir()
