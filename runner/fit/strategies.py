"""From words to the cells whose limits are sought: a comma list among them makes several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.composing import composition
from runner.errors import BadInput, nearest
from runner.fit.probes import Strategy
from runner.plan import Planned

_CAPS = ("device.memory_limit_mb", "measure.host_limit_mb")


def strategies(vary: str, overrides: Sequence[str], folder: Path) -> list[Strategy]:
    """Every cell that the words make, once it is clear that the field can be varied in it."""
    plan = composition.plan(["-m", *overrides], folder)
    if plan.launcher:
        raise BadInput(f"hydra/launcher={plan.launcher}: a fit runs here.", "Leave it out.")
    if plan.search:
        raise BadInput("hydra/sweeper: a fit searches in its own way.", "Leave it out.")
    if plan.resume:
        raise BadInput("resume: a fit can't be resumed.", "Leave it out.")
    if vary in plan.swept:
        raise BadInput(
            f"vary={vary}: several values of it were given.",
            "Give it one, to start from, or none.",
        )
    found = []
    for cell in plan.cells:
        words = cell.said
        swept = {key: _spelled(words[key]) for key in plan.swept if key in words}
        name = " ".join(f"{key}={value}" for key, value in swept.items())
        name = name or f"scenario={cell.experiment.scenario_name}"
        found.append(Strategy(cell.number, name, cell, swept))
        _check(vary, cell)
    if not any(strategy.cell.experiment.supported for strategy in found):
        experiment = found[0].cell.experiment
        raise BadInput(
            f"execution={experiment.execution}: {experiment.unsupported_reason}.",
            f"Say execution={experiment.scenario.executions[0]}, or leave it out.",
        )
    return found


def _spelled(value: str) -> str:
    """As a user types it; Hydra says True."""
    return value.lower() if value in ("True", "False") else value


def _check(vary: str, cell: Planned) -> None:
    experiment = cell.experiment
    if experiment.device.memory_limit_mb is None and experiment.measure.host_limit_mb is None:
        raise BadInput(
            "no cap is set, so nothing ever runs out.",
            "Say device.memory_limit_mb=512, or measure.host_limit_mb=2000.",
        )
    known = experiment.fields
    whole = [name for name, value in known.items() if _is_whole(value) and name not in _CAPS]
    if vary in _CAPS:
        raise BadInput(f"vary={vary}: that is the cap.", nearest("", whole))
    if vary not in known:
        raise BadInput(f"vary={vary}: there is no such field.", nearest(vary, whole))
    value = known[vary]
    if value is None:
        raise BadInput(f"vary={vary}: has no value to start from.", f"Say {vary}=1 as well.")
    if not _is_whole(value):
        raise BadInput(f"vary={vary}: {value!r} is not a whole number.", nearest("", whole))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
