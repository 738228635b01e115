"""The plan of every verb that measures. Imports nothing that only a measurement needs, so that a
mistake in the words is answered at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from runner.cell import Cell, Plan
from runner.compose import composition
from runner.config import Tracking
from runner.errors import BadInput
from runner.overrides import read_overrides
from runner.signals import stop_on_signals


def compose_plan(words: Sequence[str], alone: str = "") -> Plan:
    """Return the plan of the words, after its notes are printed; without cells if Hydra was asked
    to tell something (`--cfg job`), and has. `alone` names a verb that neither searches nor uses a
    cluster: words that ask for either are `BadInput`."""
    with stop_on_signals():
        plan = composition.compose_plan(words)
    for note in plan.notes:
        print(f"runner: {note}", file=sys.stderr)
    if alone and plan.search:
        raise BadInput(
            f"hydra/sweeper: {alone} chooses its cells itself; it can't search.", "Leave it out."
        )
    if alone and plan.cluster:
        raise BadInput(
            f"hydra/launcher={plan.cluster.launcher}: {alone} runs on this machine only.",
            "Leave it out.",
        )
    return plan


def find_tracking(cell: Cell) -> Tracking | None:
    """Return the store that the words or the environment name; None if nothing does: the many runs
    of a fit or a leak hunt are brought into the embedded store only where that is asked for."""
    tracking = cell.experiment.tracking
    is_named = any(key.startswith("tracking") for key in read_overrides(cell.overrides))
    return tracking if is_named or tracking.kind != "local" else None
