"""Runs of one cell, composed, opened and measured without the loop around them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from hydra._internal.hydra import Hydra
from omegaconf import DictConfig

from runner.cell import Cell
from runner.compose import composition
from runner.compose.composer import Composer
from runner.engine import environment
from runner.engine.requests import Evidence, Request
from runner.engine.run import Run, open_run
from runner.processes.server import TrialServer

MACHINE = environment.describe_machine()
"""Read once, as its load changes from second to second."""


_shared: list[Composer] = []


def compose_cell(*words: str) -> Cell:
    """Return the cell of a run that is not tracked. Hydra composes a choice of files once for all
    tests, as for all cells of a sweep: a quarter of the time that a small trial takes."""
    with mock.patch.object(composition, "Composer", _share_composer):
        (cell,) = composition.compose_plan([*words, "tracking=none"]).cells
    return cell


def _share_composer(
    opened: Hydra, hydra_words: Sequence[str], sweep: DictConfig | None = None
) -> Composer:
    if hydra_words or sweep is not None:
        return Composer(opened, hydra_words, sweep)
    if not _shared:
        _shared.append(Composer(opened, ()))
    return _shared[0]


def open_whole(cell: Cell, folder: Path, settles_peak: bool = True) -> Run:
    """Open a cell's run in a folder; all the evidence that it asks for is wanted."""
    evidence = Evidence.from_measure(cell.experiment.measure, settles_peak)
    return open_run(Request(cell, evidence, place=""), folder, MACHINE)


def measure_run(run: Run, server: TrialServer) -> dict[str, float]:
    """Run all trials of a run, all of which complete; return the seconds of each kind's last."""
    took = {}
    while (spec := run.next) is not None:
        began = time.monotonic()
        trial = server.run(spec, 300)
        assert trial.outcome.completed, trial.outcome
        run.add_trial(trial)
        took[spec.kind] = time.monotonic() - began
    return took
