"""The plainest source: every cell of a plan, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.cell import Plan
from runner.engine.requests import Evidence, Request
from runner.engine.run import Run


@dataclass
class Grid:
    """All cells of a sweep, or the one of a run, each with all the evidence that it asks for."""

    plan: Plan
    _is_asked: bool = field(default=False, init=False)

    @property
    def question(self) -> Mapping[str, Any] | None:
        return make_question(self.plan) if self.plan.is_sweep else None

    @property
    def seed(self) -> int:
        return self.plan.cells[0].experiment.seed

    @property
    def must_have_device(self) -> bool:
        return not self.plan.is_sweep

    def ask(self) -> Sequence[Request]:
        if self._is_asked:
            return ()
        self._is_asked = True
        return [
            Request(
                cell,
                Evidence.from_measure(cell.experiment.measure),
                place=str(cell.number) if self.plan.is_sweep else "",
                swept={key: cell.said.get(key) for key in self.plan.swept}
                if self.plan.is_sweep
                else None,
            )
            for cell in self.plan.cells
        ]

    def tell(self, run: Run) -> None:
        """Nothing depends on what the cells have shown."""


def make_question(plan: Plan) -> dict[str, Any]:
    """Return what `plan.json` keeps of a plan: a resumed one must have the same."""
    return {
        "cells": [cell.experiment.cell for cell in plan.cells],
        "swept": list(plan.swept),
        "overrides": [list(cell.overrides) for cell in plan.cells],
    }
