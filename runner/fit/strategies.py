"""The cells whose limits are sought: a comma list among the words makes several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.cell import Cell, Plan
from runner.compose.experiments import check_supported
from runner.errors import BadInput, suggest

_CAPS = ("device.memory_limit_mb", "measure.host_limit_mb")
_OWN = "scenario.arguments."
"""Fields of the user's own function, which are there only where they are given a value."""


@dataclass(frozen=True)
class Strategy:
    """One way to run it, and the name that tells it from the others."""

    number: int
    name: str
    cell: Cell
    swept: Mapping[str, str]

    @property
    def cap_bytes(self) -> int | None:
        """Return the cap on the device's tensors."""
        limit_mb = self.cell.experiment.device.memory_limit_mb
        return None if limit_mb is None else limit_mb * 2**20


def list_strategies(plan: Plan, vary: str) -> list[Strategy]:
    """Return a strategy for every cell of the plan; raise `BadInput` if the field can't be varied
    in one."""
    strategies = []
    for cell in plan.cells:
        said = {key: cell.said[key] for key in plan.swept if key in cell.said}
        typed = {"True": "true", "False": "false"}  # as Hydra says them, and as a user does
        swept = {key: typed.get(value, value) for key, value in said.items()}
        name = " ".join(f"{key}={value}" for key, value in swept.items())
        name = name or f"scenario={cell.experiment.scenario_name}"
        strategies.append(Strategy(cell.number, name, cell, swept))
        _check_field(vary, cell)
        needs_value = vary.startswith(_OWN) and vary not in plan.swept
        if vary in cell.said and not needs_value:
            raise BadInput(
                f"{vary} is given a value, and vary={vary} has fit choose it.",
                f"Leave {vary}=... out.",
            )
    if not any(strategy.cell.experiment.supported for strategy in strategies):
        check_supported(strategies[0].cell.experiment)
    return strategies


def _check_field(vary: str, cell: Cell) -> None:
    experiment = cell.experiment
    if experiment.device.memory_limit_mb is None and experiment.measure.host_limit_mb is None:
        raise BadInput(
            "no cap is set, so nothing ever runs out.",
            "Say device.memory_limit_mb=512, or measure.host_limit_mb=2000.",
        )
    known = experiment.fields
    whole = [name for name, value in known.items() if _is_integer(value) and name not in _CAPS]
    if vary in _CAPS:
        raise BadInput(f"vary={vary}: that is the cap.", suggest("", whole))
    if vary not in known:
        raise BadInput(f"vary={vary}: there is no such field.", suggest(vary, whole))
    value = known[vary]
    if vary in experiment.spec.unread:
        path = experiment.parameters["path"]
        raise BadInput(
            f"vary={vary}: {path} is not told it, so nothing would change.",
            f"Write {{{vary}}} where the script takes it: {path} --batch {{{vary}}}.",
        )
    if not _is_integer(value):
        raise BadInput(f"vary={vary}: {value!r} is not a whole number.", suggest("", whole))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
