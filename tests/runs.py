"""Runs of one cell, opened and measured without the loop around them."""

from __future__ import annotations

import time
from pathlib import Path

from runner.cell import Cell
from runner.engine import environment
from runner.engine.requests import Evidence, Request
from runner.engine.run import Run, open_run
from runner.processes.server import TrialServer

MACHINE = environment.describe_machine()
"""Read once, as its load changes from second to second."""


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
