"""From the words on the command line to typed, checked, frozen experiments. OmegaConf ends here.

Hydra plans and nothing more: its sweeper takes the words apart into cells, and in the launcher's
place stands one that composes each cell, notes it and runs nothing. Running them is `sweep`'s.
Where a launcher that distributes was asked for, `launch` has the same words composed once more,
each cell in the job that runs it; by then the plan has been checked.

Hydra's, OmegaConf's and YAML's errors are translated here, all of them, and only here.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from runner import places
from runner.config import Count, Device, Experiment, Measure, NonNegative, Tracking, typed
from runner.errors import BadInput, RunnerError, nearest
from runner.scenario import Scenario

GROUPS = ("scenario", "execution", "device", "measure", "tracking", "experiment")
_ROOTS = frozenset({*GROUPS, "batch_size", "seed", "resume", "hydra"})
_FILES_OWN = ("._target_", "measure.name")
"""What a group's file says of itself; said otherwise, a record would tell of what it is not."""
_PLACES = ("hydra.sweep.dir", "hydra.sweep.subdir", "hydra.run.dir")


@dataclass(frozen=True)
class Planned:
    """A cell as Hydra composed it: its place in the plan, and what made it."""

    number: int
    experiment: Experiment
    overrides: tuple[str, ...]
    composed: str
    """The configuration, as YAML."""
    resume: str | None = None


@dataclass(frozen=True)
class Plan:
    """Everything that the words asked for; one cell for a run, none where Hydra was only to tell
    something (`--cfg job`)."""

    cells: tuple[Planned, ...]
    is_sweep: bool
    resume: str | None
    swept: tuple[str, ...]
    """The fields that the sweep varies, slowest first."""
    launcher: str | None = None
    """Where another than Hydra's own is to run the cells: which."""


@dataclass(frozen=True)
class _Fields:
    batch_size: Count
    seed: NonNegative
    resume: str | None


def plan(words: Sequence[str], sweep_folder: Path) -> Plan:
    """Compose every cell and check it. Raises `BadInput`; leaves nothing behind when it does."""
    arguments = _into(sweep_folder, _arguments(words))
    made = [path for path in (sweep_folder, *sweep_folder.parents) if not path.exists()]
    cells: list[Planned] = []
    problems: list[RunnerError] = []

    def note(config: DictConfig) -> None:
        try:
            cells.append(planned(config))
        except RunnerError as problem:
            problems.append(problem)

    try:
        with _translated(), _as_command_line(arguments), _noting_launcher() as launchers:
            _hydra(note)
        if problems:
            raise problems[0]
        is_sweep = bool(launchers)
        if is_sweep and not cells:
            raise BadInput("the sweep has no cells.", "Give each swept field at least one value.")
        if not is_sweep and cells and not cells[0].experiment.supported:
            raise _unsupported(cells[0].experiment)
    finally:
        _discard(made)
    return Plan(
        cells=tuple(cells),
        is_sweep=is_sweep,
        resume=_one_for_all(cells),
        swept=_swept(cells),
        launcher=launchers.pop() if is_sweep else None,
    )


def planned(config: DictConfig) -> Planned:
    """The cell that Hydra is composing, or, in a launcher's job, has composed."""
    with _translated():
        hydra_config = HydraConfig.get()
        is_sweep = hydra_config.mode is not None and hydra_config.mode.name == "MULTIRUN"
        return Planned(
            number=int(hydra_config.job.num) if is_sweep else 0,
            experiment=experiment_from(config, str(hydra_config.runtime.choices.get("scenario"))),
            overrides=tuple(hydra_config.overrides.task),
            composed=OmegaConf.to_yaml(config),
            resume=config.resume,
        )


def launch(words: Sequence[str], sweep_folder: Path, task: Callable[[DictConfig], None]) -> None:
    """Have the launcher that the words ask for call `task` with each cell, wherever that is."""
    with _as_command_line(_into(sweep_folder, _arguments(words))):
        _hydra(task)


def _into(folder: Path, words: list[str]) -> list[str]:
    """The words, and where sweeps go; beside the first override, as flags must not part them."""
    path = str(folder).replace("'", "\\'")
    first = next((i for i, word in enumerate(words) if not word.startswith("-") and "=" in word), 0)
    return [*words[:first], f"hydra.sweep.dir='{path}'", *words[first:]]


def _hydra(task: Callable[[DictConfig], None]) -> None:
    hydra.main(config_path=str(places.conf()), config_name="config", version_base="1.3")(task)()


class _NotingLauncher(Launcher):  # type: ignore[misc]
    """Composes each cell as Hydra's own launcher does, lets the task function note it, and keeps
    nothing (Hydra's own keeps two copies of each configuration, 0.1 MB a cell)."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self._context, self._task, self._config = hydra_context, task_function, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            config = self._context.config_loader.load_sweep_config(self._config, list(overrides))
            with open_dict(config):
                config.hydra.job.num = number
                HydraConfig.instance().set_config(config)
                del config["hydra"]
            self._task(config)
        return []


@contextmanager
def _noting_launcher() -> Iterator[set[str | None]]:
    """Let Hydra's sweepers launch nothing. What it yields receives the launcher that was asked for,
    None for Hydra's own, and stays empty where nothing is swept. (Hydra takes launchers from one
    namespace package alone, and none can be named in words without losing the user's.)

    Sweepers compose every cell once to see that it can be, then have it launched; as composing is
    all that is done here, the first time is left out: it takes half of a large sweep's planning."""
    seen: set[str | None] = set()
    original = Plugins.instantiate_launcher

    def instantiate(
        self: Plugins, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> Launcher:
        try:
            original(self, hydra_context, task_function, config)
        except (ImportError, RuntimeError) as error:
            raise BadInput(f"hydra.launcher: {_first_line(error)}", _INSTALL_LAUNCHER) from error
        name = str(config.hydra.runtime.choices.get("hydra/launcher"))
        seen.add(None if config.hydra.launcher._target_.endswith(".BasicLauncher") else name)
        launcher = _NotingLauncher()
        launcher.setup(hydra_context=hydra_context, task_function=task_function, config=config)
        return launcher

    validate = Sweeper.validate_batch_is_legal
    Plugins.instantiate_launcher = instantiate
    Sweeper.validate_batch_is_legal = lambda *_: None
    try:
        yield seen
    finally:
        Plugins.instantiate_launcher = original
        Sweeper.validate_batch_is_legal = validate


_INSTALL_LAUNCHER = "Is its package installed? hydra-joblib-launcher, hydra-submitit-launcher, ..."


def _one_for_all(cells: Sequence[Planned]) -> str | None:
    """What to resume, if anything; it and the store are the sweep's, not a cell's."""
    for name, said in (
        ("resume", {cell.resume for cell in cells}),
        ("tracking", {cell.experiment.tracking for cell in cells}),
    ):
        if len(said) > 1:
            raise BadInput(f"{name}: a sweep has one for all its cells.", f"Give {name} one value.")
    return cells[0].resume if cells else None


def cells(wanted: Sequence[Mapping[str, Any]]) -> list[Planned]:
    """Cells that are told as mappings, `{"scenario": "tape", "scenario.depth": 4}`, each checked as
    words are. Hydra composes every choice of groups once, 80 ms each; fields are set in copies."""
    bases: dict[tuple[str, ...], DictConfig] = {}
    found = []
    with _translated(), hydra.initialize_config_dir(str(places.conf()), version_base="1.3"):
        for number, fields in enumerate(wanted):
            groups = tuple(f"{key}={value}" for key, value in fields.items() if key in GROUPS)
            if groups not in bases:
                bases[groups] = hydra.compose("config", list(groups))
            config = bases[groups].copy()
            for key, value in fields.items():
                if key not in GROUPS:
                    _set(config, key, value)
            experiment = experiment_from(config, str(fields.get("scenario")))
            if not experiment.supported:
                raise _unsupported(experiment)
            words = tuple(f"{key}={_as_word(value)}" for key, value in fields.items())
            found.append(Planned(number, experiment, words, OmegaConf.to_yaml(config)))
    return found


def changed(cell: Planned, number: int, fields: Mapping[str, Any]) -> Planned:
    """A cell with other values in some of its fields, and another place in the plan."""
    with _translated():
        config = OmegaConf.create(cell.composed)
        assert isinstance(config, DictConfig)
        for key, value in fields.items():
            _set(config, key, value)
        experiment = experiment_from(config, cell.experiment.scenario_name)
        words = tuple(f"{key}={_as_word(value)}" for key, value in fields.items())
        return Planned(number, experiment, (*cell.overrides, *words), OmegaConf.to_yaml(config))


def _set(config: DictConfig, key: str, value: Any) -> None:
    parent, _, name = key.rpartition(".")
    group = OmegaConf.select(config, parent) if parent else config
    if not isinstance(group, DictConfig) or name not in group:
        known = [str(field) for field in group] if isinstance(group, DictConfig) else _ROOTS
        known = [field for field in known if not field.startswith("_")]
        raise BadInput(f"{key}: there is no such field.", nearest(name, known))
    OmegaConf.update(config, key, value)


def _as_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def experiment_from(config: DictConfig, scenario_name: str) -> Experiment:
    """One cell's configuration as an `Experiment`."""
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    groups = {name: values.pop(name, None) for name in GROUPS}
    fields = typed(_Fields, {str(key): value for key, value in values.items()}, "")
    scenario = _scenario(groups["scenario"], scenario_name)
    execution = groups["execution"] or scenario.executions[0]
    known = sorted(path.stem for path in (places.conf() / "execution").glob("*.yaml"))
    if execution not in known:
        raise BadInput(f"execution: {execution!r} is no choice.", nearest(str(execution), known))
    supported = execution in scenario.executions
    return Experiment(
        scenario_name=scenario_name,
        scenario=scenario,
        execution=execution,
        device=typed(Device, _mapping(groups["device"], "device"), "device"),
        measure=typed(Measure, _mapping(groups["measure"], "measure"), "measure"),
        tracking=typed(Tracking, _mapping(groups["tracking"], "tracking"), "tracking"),
        batch_size=fields.batch_size,
        seed=fields.seed,
        supported=supported,
        unsupported_reason=None
        if supported
        else f"{scenario_name} has no {execution!r} execution; it has: "
        f"{', '.join(scenario.executions)}",
    )


def _unsupported(experiment: Experiment) -> BadInput:
    return BadInput(
        f"execution={experiment.execution}: {experiment.unsupported_reason}.",
        f"Say execution={experiment.scenario.executions[0]}, or leave it out.",
    )


def _scenario(values: Any, name: str) -> Scenario:
    where = f"conf/scenario/{name}.yaml"
    fields = dict(_mapping(values, "scenario"))
    target = fields.pop("_target_", None)
    if not isinstance(target, str) or "." not in target:
        raise BadInput(f"{where}: has no _target_.", "Write _target_: scenarios.FILE.CLASS in it.")
    module_name, _, class_name = target.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module_name), class_name)
    except Exception as error:  # whatever a user's module raises as it is read
        raise BadInput(
            f"{where}: _target_ {target} can't be imported "
            f"({type(error).__name__}: {error}{_raised_in(error)}).",
            "Correct the path or the module, or install what it needs.",
        ) from error
    is_scenario = dataclasses.is_dataclass(kind) and hasattr(kind, "build")
    if not is_scenario:
        raise BadInput(
            f"{where}: _target_ {target} is no scenario.",
            "Name a frozen dataclass with executions and build, as runner/scenario.py shows.",
        )
    scenario: Scenario = typed(kind, fields, "scenario")
    getattr(scenario, "check", lambda: None)()
    return scenario


def _raised_in(error: Exception) -> str:
    """The line of the imported module at which it ended, if it came that far."""
    lines = traceback.extract_tb(error.__traceback__)
    machinery = ("<", __file__, str(importlib.__file__))
    theirs = [each for each in lines if not each.filename.startswith(machinery)]
    return f", {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""


def _mapping(values: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(values, dict):
        raise BadInput(f"{where}: {values!r} is no group.", f"Say {where}=NAME.")
    return values


def _arguments(words: Sequence[str]) -> list[str]:
    """The words, once it is clear that each is a flag of Hydra's or one override, said once."""
    parsed, unknown = get_args_parser().parse_known_args(list(words))
    for word in [*parsed.overrides, *unknown]:
        if word.startswith("-"):
            raise BadInput(f"{word}: there is no such flag.", "See `python -m runner --help`.")
        if "=" not in word and not word.startswith("~"):
            raise BadInput(
                f"{word}: an override needs a '='.",
                f"Write {word}=VALUE; `python -m runner list` shows the choices.",
            )
    said: dict[str, str] = {}
    for word in parsed.overrides:
        key = _parsed(word).get_key_element().lstrip("+~")
        root = re.split(r"[./@:]", key)[0]
        if root not in _ROOTS:
            raise BadInput(f"{key}: there is no group or field of that name.", _nearest_root(root))
        if key in said:
            raise BadInput(
                f"{key}: said twice, {said[key]!r} and {word!r}.",
                f"Keep one; to sweep over both: -m {key}=A,B.",
            )
        if key in _PLACES:
            raise BadInput(f"{key}: is the runner's to say.", "RUNNER_OUTPUTS names a place.")
        if key.endswith(_FILES_OWN):
            raise BadInput(f"{key}: is its YAML file's to say.", f"Say {root}=NAME.")
        if key in GROUPS and None in _values(_parsed(word)):
            raise _no_choice(key, "null")
        said[key] = word
    sweeps_scenarios = "scenario" in said and _parsed(said["scenario"]).is_sweep_override()
    ours = set(said.values())
    return [_for_hydra(word, sweeps_scenarios) if word in ours else word for word in words]


def _for_hydra(word: str, sweeps_scenarios: bool) -> str:
    """Hydra composes a sweep once without what is swept, to find its sweeper; a parameter of a
    scenario that is swept would be unknown there, so it is made a sweep over its one value."""
    key, _, value = word.partition("=")
    if sweeps_scenarios and key.startswith("scenario.") and not _parsed(word).is_sweep_override():
        return f"{key}=choice({value})"
    return _into_mapping(word)


def _into_mapping(word: str) -> str:
    """A parameter that is a mapping takes keys that its YAML lacks; Hydra wants `++` for that."""
    key, _, value = word.partition("=")
    whole, below = value.startswith("{"), key.count(".") > 1
    return f"++{word}" if key.startswith("scenario.") and (whole or below) else word


def _parsed(word: str) -> Override:
    try:
        override: Override = OverridesParser.create().parse_override(word)
        return override
    except HydraException as error:
        raise BadInput(
            f"{word}: can't be read as KEY=VALUE ({_first_line(error)}).",
            "Quote what the shell or Hydra would take apart: 'key=\"a value\"'.",
        ) from error


def _values(override: Override) -> list[Any]:
    value = override.value()
    return value.list if isinstance(value, ChoiceSweep) else [override.is_delete() or value]


def _no_choice(group: str, name: str) -> BadInput:
    choices = (path.stem for path in (places.conf() / group).glob("*.yaml"))
    return BadInput(f"{group}={name}: there is no {group} of that name.", nearest(name, choices))


def _swept(cells: Sequence[Planned]) -> tuple[str, ...]:
    """The keys whose overrides differ between cells, in the order that Hydra took them."""
    values: dict[str, set[str]] = {}
    for cell in cells:
        for word in cell.overrides:
            key, _, value = word.lstrip("+").partition("=")
            values.setdefault(key, set()).add(value)
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


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except RunnerError:
        raise
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError) as error:
        raise translate(error) from error
    except OSError as error:
        raise BadInput(
            f"{error.filename}: {error.strerror}.",
            "Check the path; RUNNER_OUTPUTS names the folder for results.",
        ) from error


def translate(error: Exception) -> BadInput:
    """A foreign error as what, where and what to do."""
    for kind, explain in _EXPLANATIONS:
        if isinstance(error, kind):
            return explain(error)
    return BadInput(_first_line(error), "See `python -m runner list`.")


def _bad_override(error: OverrideParseException) -> BadInput:
    return BadInput(
        f"{error.override}: can't be read ({_first_line(error)}).",
        "See hydra.sweeper.params in the experiment's YAML file, or the words you typed.",
    )


def _missing_config(error: MissingConfigException) -> BadInput:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    group = group or "config"
    return BadInput(
        f"{group}={name}: there is no {group} of that name.",
        nearest(name, error.options or ()),
    )


def _bad_composition(error: ConfigCompositionException) -> BadInput:
    text = str(error)
    if match := re.match(r"You must specify '([^']+)'", text):
        group = match[1]
        choices = sorted(path.stem for path in (places.conf() / group).glob("*.yaml"))
        return BadInput(f"no {group} was chosen.", f"Say {group}=NAME. {nearest('', choices)}")
    if match := re.match(
        r"Could not (?:override|append to config|delete[^']*) ?'?\+?([^'\n]+)", text
    ):
        return _no_such_key(match[1].split("=")[0].strip("'. "), error)
    if match := re.match(r"Error merging override ([^=]+)=(.*)", text):
        key, value = match[1].lstrip("+"), match[2]
        return BadInput(f"{key}: can't be {value}.", "Its YAML file says what it takes.")
    if match := re.match(r"Ambiguous value for argument '([^']+)'", text):
        return BadInput(f"{match[1]}: several values make a sweep.", f"Say -m {match[1]}.")
    return BadInput(_first_line(error), "See `python -m runner list`.")


def _no_such_key(key: str, error: Exception) -> BadInput:
    cause = error.__cause__
    parent = getattr(cause, "parent_node", None)
    prefix, _, name = key.rpartition(".")
    if isinstance(parent, DictConfig):
        known = [str(field) for field in parent if not str(field).startswith(("_", "hydra"))]
        return BadInput(f"{key}: there is no such field.", nearest(name, known))
    return BadInput(f"{key}: there is no such group or field.", _nearest_root(prefix or name))


def _nearest_root(name: str) -> str:
    return nearest(name, _ROOTS - {"hydra"})


def _bad_yaml(error: yaml.YAMLError) -> BadInput:
    mark = getattr(error, "problem_mark", None)
    where = f"{mark.name}, line {mark.line + 1}" if mark else "a YAML file"
    what = getattr(error, "problem", None) or _first_line(error)
    return BadInput(f"{where}: can't be read ({what}).", "Correct the file.")


def _bad_value(error: OmegaConfBaseException) -> BadInput:
    where = getattr(error, "full_key", None) or "the configuration"
    return BadInput(f"{where}: {_first_line(error)}", "Give it a plain value.")


def _no_value(error: MissingMandatoryValue) -> BadInput:
    key = str(error.full_key)
    return BadInput(f"{key}: has no value.", f"Say {key}=VALUE; its YAML file says what it takes.")


def _bad_encoding(error: UnicodeDecodeError) -> BadInput:
    return BadInput(f"a YAML file is no UTF-8 text ({error.reason}).", "Save it as UTF-8.")


_EXPLANATIONS: tuple[tuple[type[Exception], Callable[[Any], BadInput]], ...] = (
    (OverrideParseException, _bad_override),
    (MissingConfigException, _missing_config),
    (ConfigCompositionException, _bad_composition),
    (yaml.YAMLError, _bad_yaml),
    (MissingMandatoryValue, _no_value),
    (OmegaConfBaseException, _bad_value),
    (UnicodeDecodeError, _bad_encoding),
)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
