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

from runner import paths
from runner.callables import PickledFunction
from runner.compose import GROUPS
from runner.config import Count, Device, Experiment, Measure, NonNegative, Tracking, build_checked
from runner.errors import BadInput, suggest
from runner.scenario import Scenario

T = TypeVar("T")


@dataclass(frozen=True)
class _PlainFields:
    batch_size: Count
    seed: NonNegative
    resume: str | None
    search: dict[str, Any]


def make_experiment(
    values: Mapping[str, Any], scenario_name: str, function: PickledFunction | None = None
) -> Experiment:
    """Return one cell's resolved configuration as an `Experiment`, every value checked."""
    rest = {name: value for name, value in values.items() if name not in GROUPS}
    fields = build_checked(_PlainFields, rest, "")
    scenario = _make_scenario(_get_group(values, "scenario"), scenario_name, function)
    execution = values.get("execution") or scenario.executions[0]
    known = paths.find_choices("execution")
    if not isinstance(execution, str) or execution not in known:  # a file's own may be anything
        said = str(execution)[:100]
        raise BadInput(f"execution: {said!r} is not a valid choice.", suggest(said, known))
    reason = None
    if execution not in scenario.executions:
        has = ", ".join(scenario.executions)
        reason = f"{scenario_name} has no {execution!r} execution; it has: {has}"
    return Experiment(
        scenario_name=scenario_name,
        scenario=scenario,
        execution=execution,
        device=_share(build_checked(Device, _get_group(values, "device"), "device")),
        measure=_share(build_checked(Measure, _get_group(values, "measure"), "measure")),
        tracking=_share(build_checked(Tracking, _get_group(values, "tracking"), "tracking")),
        batch_size=fields.batch_size,
        seed=fields.seed,
        supported=reason is None,
        unsupported_reason=reason,
        function=function,
    )


def check_supported(experiment: Experiment) -> None:
    """Raise `BadInput` for a scenario and an execution that don't go together."""
    if not experiment.supported:
        raise BadInput(
            f"execution={experiment.execution}: {experiment.unsupported_reason}.",
            f"Say execution={experiment.scenario.executions[0]}, or leave it out.",
        )


@functools.lru_cache(maxsize=64)
def _share(group: T) -> T:
    """Return one object for all cells with the same group: a third of what a cell weighs."""
    return group


def _get_group(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    group = values.get(name)
    if not isinstance(group, dict):
        raise BadInput(f"{name}: {group!r} is not the name of a choice.", f"Say {name}=NAME.")
    return group


def _make_scenario(
    values: Mapping[str, Any], name: str, function: PickledFunction | None
) -> Scenario:
    fields = dict(values)
    target = fields.pop("_target_", None)
    if not isinstance(target, str) or "." not in target:
        raise BadInput(
            f"{_name_file(name)} has no _target_.", "Write _target_: scenarios.FILE.CLASS in it."
        )
    scenario: Scenario = build_checked(_import_class(target, name), fields, "scenario")
    check = getattr(scenario, "check", None)
    if function is not None:
        assert check, f"{name} takes no function by value"
        check(function)
    elif check is not None:
        check()
    return scenario


def _import_class(target: str, name: str) -> Any:
    """Return the class that a scenario's file names; the user's own are found where they stand."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    module_name, _, class_name = target.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module_name), class_name)
    except Exception as error:  # whatever a user's module raises as it is read
        lines = traceback.extract_tb(error.__traceback__)
        machinery = ("<", __file__, str(importlib.__file__))
        theirs = [line for line in lines if not line.filename.startswith(machinery)]
        line = f", {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""
        raise BadInput(
            f"{_name_file(name)}: _target_ {target} can't be imported "
            f"({type(error).__name__}: {error}{line}).",
            "Correct the path or the module, or install what it needs.",
        ) from error
    is_scenario = dataclasses.is_dataclass(kind) and hasattr(kind, "build")
    # The protocol's own, where a class inherits from it and has none.
    if not is_scenario or getattr(kind, "executions", None) in (None, (), Scenario.executions):
        raise BadInput(
            f"{_name_file(name)}: _target_ {target} is not a scenario.",
            "Name a frozen dataclass with executions and build, as runner/scenario.py shows.",
        )
    return kind


def _name_file(scenario_name: str) -> str:
    file = paths.find_choices("scenario").get(scenario_name)
    return paths.shorten(file) if file else f"scenario/{scenario_name}.yaml"
