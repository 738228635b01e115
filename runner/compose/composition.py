"""From the words on the command line to a plan: its cells composed and checked, nothing run.

Hydra's own parser takes the words apart, its basic sweeper splits them into cells, and its config
loader composes each choice of files once (`composer.py`). Nothing is written, and no program's
`sys.argv` is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from runner.analysis.objective import Objective
from runner.callables import PickledFunction
from runner.cell import Cell, Plan
from runner.compose import GROUPS, searches
from runner.compose.clusters import explain_cluster, read_cluster
from runner.compose.composer import CellConfig, Composer, dump_yaml, open_hydra, set_fields
from runner.compose.config_dirs import list_search_path, take_config_dirs
from runner.compose.experiments import check_supported, make_experiment
from runner.compose.tracking import find_primary_config
from runner.compose.translation import translate_errors
from runner.compose.words import (
    CommandLine,
    check_choice,
    check_grid,
    mask_override,
    read_words,
)
from runner.config import format_word
from runner.errors import BadInput
from runner.masking import MASK, mask_value, may_hold_secrets
from runner.overrides import read_overrides, split_override
from runner.signals import raise_if_stopped


def compose_plan(words: Sequence[str]) -> Plan:
    """Return every cell that the words ask for, checked; none where Hydra was asked to tell
    something, and has. Raises `BadInput` for the first that is wrong; writes nothing."""
    line = read_words(take_config_dirs(words))
    flags = line.flags
    with translate_errors(), open_hydra() as opened:
        if flags.cfg or flags.info or flags.hydra_help or flags.help:
            _answer(opened, line)
            return Plan((), False, None, ())
        sweep = _compose_sweep(opened, line) if _may_be_sweep(line) else None
        if sweep is not None and (flags.multirun or sweep.hydra.mode == RunMode.MULTIRUN):
            return _plan_sweep(opened, line, sweep)
        return _plan_run(opened, line, sweep)


def compose_cells(
    wanted: Sequence[Mapping[str, Any]], function: PickledFunction | None = None
) -> list[Cell]:
    """Return cells that are given as mappings, `{"scenario": "tape", "scenario.depth": 4}`, each
    checked as words are; of `function`, if it came by value."""
    cells = []
    with translate_errors(), open_hydra() as opened:
        composer = Composer(opened, list_search_path())
        for number, settings in enumerate(wanted):
            for key in GROUPS:
                if key in settings:
                    check_choice(key, settings[key])
            config = composer.compose_mapping(number, settings)
            cell = _make_cell(number, config, _write_words(settings), function)
            check_supported(cell.experiment)
            cells.append(cell)
    return cells


def change_cell(cell: Cell, number: int, fields: Mapping[str, Any]) -> Cell:
    """Return a cell with other values in some of its fields, and another place in the plan."""
    with translate_errors():
        config = OmegaConf.create(cell.composed)
        assert isinstance(config, DictConfig)
        changed = set_fields(config, fields, cell.experiment.scenario_name)
        words = [*cell.overrides, *_write_words(fields)]
        return _make_cell(number, changed, words, cell.experiment.function)


def _write_words(settings: Mapping[str, Any]) -> list[str]:
    return [f"{key}={format_word(mask_value(value, key))}" for key, value in settings.items()]


def _answer(opened: Hydra, line: CommandLine) -> None:
    """Have Hydra print what one of its own flags asks for: --cfg, --info, --hydra-help, --help."""
    flags = line.flags
    flags.overrides = [*list_search_path(), *line.hydra_words, *line.cell_words]
    primary = find_primary_config()
    if flags.help:
        opened.app_help(primary, get_args_parser(), flags)
    elif flags.hydra_help:
        opened.hydra_help(primary, get_args_parser(), flags)
    elif flags.cfg:
        opened.show_cfg(primary, flags.overrides, flags.cfg, flags.package, flags.resolve)
    else:
        opened.show_info(flags.info, primary, flags.overrides)


def _may_be_sweep(line: CommandLine) -> bool:
    """Return False where no word and no file of the user's can make it a sweep: composing takes
    most of the time that a plan does, and a run is composed once then."""
    names_experiment = any("experiment" in key for key in read_overrides(line.cell_words))
    return bool(line.flags.multirun or line.hydra_words or names_experiment or list_search_path())


def _compose_sweep(opened: Hydra, line: CommandLine) -> DictConfig | None:
    """Return the configuration without what is swept, as Hydra composes it to find its sweeper, and
    without a scenario's parameters, as the scenario may be swept. Return None where it can't be
    composed and nothing asks for a sweep: the run's own configuration says why."""
    cell_words = [
        word for word in line.cell_words if not split_override(word)[0].startswith("scenario.")
    ]
    words = [*list_search_path(), *line.hydra_words, *cell_words]
    try:
        config: DictConfig = opened.config_loader.load_configuration(
            find_primary_config(), words, RunMode.MULTIRUN, validate_sweep_overrides=False
        )
    except Exception:
        if line.flags.multirun:
            raise
        return None
    return config


def _plan_run(opened: Hydra, line: CommandLine, sweep: DictConfig | None) -> Plan:
    composer = Composer(opened, [*list_search_path(), *line.hydra_words])
    config = composer.compose_words(0, line.cell_words)
    cell = _make_cell(0, config, line.cell_words)
    _check_no_objective(config.values.get("search"))
    check_supported(cell.experiment)
    notes = [] if sweep is None else list(_explain_unused(sweep))
    notes += _explain_unread([cell], list(cell.said))
    return Plan((cell,), False, config.values.get("resume"), (), notes=tuple(notes))


def _explain_unread(cells: Sequence[Cell], fields: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each of these fields that no script among the cells can read."""
    scripts = [cell.experiment for cell in cells if cell.experiment.scenario_name == "script"]
    for name in fields:
        unread = [script for script in scripts if name in script.spec.unread]
        if unread:
            path = unread[0].parameters["path"]
            yield f"{name} is not used: {path} is not told it. Write {{{name}}} among its words."


def _explain_unused(sweep: DictConfig) -> Iterator[str]:
    """Yield a sentence for each thing that was asked for of a sweep, where there is none."""
    choices = sweep.hydra.runtime.choices
    if sweep.hydra.sweeper.get("params"):
        yield (
            f"hydra.sweeper.params of experiment={choices.get('experiment')} is not swept: nothing "
            "makes this a sweep. Say -m, or write mode: MULTIRUN below hydra: in its file."
        )
    for group in ("hydra/launcher", "hydra/sweeper"):
        if choices.get(group) != "basic":
            yield f"{group}={choices.get(group)} is not used: this is one run. Say -m as well."


def _plan_sweep(opened: Hydra, line: CommandLine, sweep: DictConfig) -> Plan:
    params = [f"{key}={value}" for key, value in (sweep.hydra.sweeper.get("params") or {}).items()]
    parser = OverridesParser.create(config_loader=opened.config_loader)
    overrides = parser.parse_overrides([*params, *line.cell_words])
    composer = Composer(opened, [*list_search_path(), *line.hydra_words], sweep)
    resumed: set[str | None] = set()

    def compose(number: int, words: Sequence[str]) -> Cell:
        raise_if_stopped()
        config = composer.compose_words(number, words)
        resumed.add(config.values.get("resume"))
        return _make_cell(number, config, words)

    search = None
    cluster = read_cluster(sweep)
    sweeper = str(sweep.hydra.runtime.choices.get("hydra/sweeper"))
    if sweeper == "optuna":
        if cluster:
            raise BadInput(
                "hydra/launcher: a search runs its cells here; their results decide the next ones.",
                "Leave hydra/launcher out, or sweep a grid.",
            )
        search, points = searches.read_search(sweep, overrides, compose)
    elif sweeper == "basic":
        check_grid(overrides)
        _check_no_objective(OmegaConf.to_container(sweep.search, resolve=True))
        points = BasicSweeper.split_arguments(overrides, None)[0]
    else:
        raise BadInput(
            f"hydra/sweeper={sweeper}: the runner walks a grid, or searches with Optuna.",
            "Leave it out, or say hydra/sweeper=optuna.",
        )
    cells = tuple(compose(number, words) for number, words in enumerate(points))
    if not cells:
        raise BadInput(
            "the sweep has no cells.",
            "Give each swept field at least one value; a glob() may match nothing.",
        )
    is_masked = any(MASK in word for cell in cells for word in cell.overrides)
    if is_masked and len({cell.experiment.cell for cell in cells}) < len(cells):
        raise BadInput(
            "the sweep varies what looks like a secret, and no record keeps its values.",
            "Give it one value, or another name.",
        )
    measures = {cell.experiment.measure for cell in cells}
    for name, values in (
        ("resume", resumed),
        ("tracking", {cell.experiment.tracking for cell in cells}),
        ("measure.side_by_side", {measure.side_by_side for measure in measures}),
    ):
        if len(values) > 1:
            raise BadInput(f"{name}: a sweep has one for all its cells.", f"Give {name} one value.")
    if search is not None:
        for measure in measures:
            Objective(search.metrics, search.limits).check(measure)
    swept = _find_swept_fields(cells)
    notes = (*_explain_unread(cells, swept), *explain_cluster(cluster))
    return Plan(cells, True, resumed.pop(), swept, cluster, search, notes)


def _make_cell(
    number: int, config: CellConfig, words: Sequence[str], function: PickledFunction | None = None
) -> Cell:
    experiment = make_experiment(config.values, config.scenario, function)
    masked = None
    if may_hold_secrets(config.text) and experiment.secrets:
        masked = dump_yaml(mask_value(yaml.safe_load(config.text)))
    words = tuple(map(mask_override, words))
    return Cell(number, experiment, words, config.text, masked=masked)


def _check_no_objective(search: Any) -> None:
    if Objective.read(search or {}).is_set:
        raise BadInput(
            "search: only a sweeper that searches uses it, and none is chosen.",
            "Say -m hydra/sweeper=optuna as well.",
        )


def _find_swept_fields(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the fields whose words differ between cells, in the order that Hydra took them; of a
    whole mapping, its entries that differ."""
    values: dict[str, set[str]] = {}
    for cell in cells:
        for word in cell.overrides:
            key, value = split_override(word)
            entries = {}
            if key.startswith("scenario.") and "{" in value:
                fields = cell.experiment.fields
                entries = {name: fields[name] for name in fields if name.startswith(f"{key}.")}
            for name, entry in (entries or {key: value}).items():
                values.setdefault(name, set()).add(str(entry))
    return tuple(key for key, seen in values.items() if len(seen) > 1)
