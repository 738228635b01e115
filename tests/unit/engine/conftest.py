"""A plan on its way through the engine, on whatever stands in the server's place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.cell import Plan, TrialSpec
from runner.engine.events import Result
from runner.engine.grid import Grid
from runner.engine.measure import measure
from runner.engine.scheduler import LocalExecutor
from runner.records import Outcome, Trial
from tests.factories import memory_trial, timing_trial
from tests.runs import MACHINE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "2026-01-31" / "12-00-00-abcd"


def executor_on(server: Any) -> LocalExecutor:
    executor = LocalExecutor(server)
    executor.machine = MACHINE
    return executor


def run_plan(plan: Plan, folder: Path, server: Any) -> Result:
    return measure(Grid(plan), folder, executor_on(server))


class Recorder:
    """In place of the server: notes each trial; all complete, unless told otherwise."""

    def __init__(self, ends: Callable[[TrialSpec], Outcome | None] = lambda _: None) -> None:
        self.asked: list[tuple[str, str, int]] = []
        self.log = Path("/dev/null")
        self._ends = ends

    def start(self, environment: object = None) -> None:
        """There is nothing to load."""

    def terminate(self) -> None:
        """There is nothing to end."""

    stop = terminate

    def run(
        self,
        spec: TrialSpec,
        timeout: float,
        on_phase: object = None,
        log: Path | None = None,
    ) -> Trial:
        cell = spec.experiment.cell
        self.asked.append((cell, spec.kind, spec.index))
        ended = self._ends(spec)
        if ended is not None:
            return Trial(spec.kind, spec.index, ended)
        trial = memory_trial if spec.kind == "memory" else timing_trial
        return trial(index=spec.index)
