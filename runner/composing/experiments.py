"""One composed configuration as an `Experiment`: typed, checked, frozen. OmegaConf ends here."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import OmegaConfDumper

from runner import places
from runner.composing import GROUPS, ROOTS
from runner.config import Count, Device, Experiment, Measure, NonNegative, Tracking, typed
from runner.errors import BadInput, nearest
from runner.scenario import Scenario
from runner.sent import Sent

T = TypeVar("T")


@dataclass(frozen=True)
class _Fields:
    batch_size: Count
    seed: NonNegative
    resume: str | None
    search: dict[str, Any]


def set_field(config: DictConfig, key: str, value: Any) -> None:
    parent, _, name = key.rpartition(".")
    group = OmegaConf.select(config, parent) if parent else config
    if not isinstance(group, DictConfig) or name not in group.keys():  # noqa: SIM118
        if not isinstance(group, DictConfig):
            name, group = key.partition(".")[0], dict.fromkeys(ROOTS)
        known = [str(field) for field in group if not str(field).startswith("_")]
        raise BadInput(f"{key}: there is no such field.", nearest(name, known))
    # A mapping is put in the place of the one that was there, whatever keys that had.
    OmegaConf.update(config, key, value, merge=False)


def to_plain(config: DictConfig) -> dict[str, Any]:
    return _dictionary(OmegaConf.to_container(config, resolve=False, enum_to_str=True))


def resolved(config: DictConfig) -> dict[str, Any]:
    return _dictionary(OmegaConf.to_container(config, resolve=True, throw_on_missing=True))


def _dictionary(values: Any) -> dict[str, Any]:
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def as_yaml(values: Mapping[str, Any]) -> str:
    """The text of a configuration as OmegaConf spells it; by libyaml, in a quarter of the time."""
    text: str = yaml.dump(
        values, default_flow_style=False, allow_unicode=True, sort_keys=False, Dumper=_Dumper
    )
    return text


class _Dumper(getattr(yaml, "CDumper", yaml.Dumper)):  # type: ignore[misc]
    """Quotes texts that would be read as something else, as OmegaConf's does."""


_Dumper.add_representer(str, OmegaConfDumper.str_representer)


def as_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def experiment_from(
    values: Mapping[str, Any], scenario_name: str, sent: Sent | None = None
) -> Experiment:
    """One cell's configuration, resolved, as an `Experiment`."""
    groups = {name: values.get(name) for name in GROUPS}
    rest = {name: value for name, value in values.items() if name not in GROUPS}
    fields = typed(_Fields, rest, "")
    scenario = _scenario(groups["scenario"], scenario_name, sent)
    execution = groups["execution"] or scenario.executions[0]
    known = places.choices("execution")
    if execution not in known:
        raise BadInput(
            f"execution: {execution!r} is not a valid choice.", nearest(str(execution), known)
        )
    supported = execution in scenario.executions
    return Experiment(
        scenario_name=scenario_name,
        scenario=scenario,
        execution=execution,
        device=_shared(typed(Device, _mapping(groups["device"], "device"), "device")),
        measure=_shared(typed(Measure, _mapping(groups["measure"], "measure"), "measure")),
        tracking=_shared(typed(Tracking, _mapping(groups["tracking"], "tracking"), "tracking")),
        batch_size=fields.batch_size,
        seed=fields.seed,
        supported=supported,
        unsupported_reason=None
        if supported
        else f"{scenario_name} has no {execution!r} execution; it has: "
        f"{', '.join(scenario.executions)}",
        sent=sent,
    )


@functools.lru_cache(maxsize=64)
def _shared(group: T) -> T:
    """One for all cells that say the same: without that, a third of what a cell weighs."""
    return group


def unsupported(experiment: Experiment) -> BadInput:
    return BadInput(
        f"execution={experiment.execution}: {experiment.unsupported_reason}.",
        f"Say execution={experiment.scenario.executions[0]}, or leave it out.",
    )


def _scenario(values: Any, name: str, sent: Sent | None) -> Scenario:
    where = _Where(name)
    if (here := str(Path.cwd())) not in sys.path:  # as for every import path of the user's
        sys.path.insert(0, here)
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
    # The protocol's own, where a class inherits from it and says none.
    if not is_scenario or getattr(kind, "executions", None) in (None, (), Scenario.executions):
        raise BadInput(
            f"{where}: _target_ {target} is not a scenario.",
            "Name a frozen dataclass with executions and build, as runner/scenario.py shows.",
        )
    scenario: Scenario = typed(kind, fields, "scenario")
    check = getattr(scenario, "check", None)
    if sent is not None:
        assert check, f"{name} takes no function that is sent"
        check(sent)
    elif check is not None:
        check()
    return scenario


@dataclass(frozen=True)
class _Where:
    """A scenario's file, looked for where it is to be named: a thousand cells don't need it."""

    name: str

    def __str__(self) -> str:
        file = places.choices("scenario").get(self.name)
        return places.relative(file) if file else f"scenario/{self.name}.yaml"


def _raised_in(error: Exception) -> str:
    """The line of the imported module at which it ended, if it came that far."""
    lines = traceback.extract_tb(error.__traceback__)
    machinery = ("<", __file__, str(importlib.__file__))
    theirs = [each for each in lines if not each.filename.startswith(machinery)]
    return f", {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""


def _mapping(values: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(values, dict):
        raise BadInput(f"{where}: {values!r} is not the name of a choice.", f"Say {where}=NAME.")
    return values
