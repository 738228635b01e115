"""A run or a sweep: compose, check, then measure, keep, track and show."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from runner.composing import composition
from runner.errors import BadInput
from runner.plan import PLAN_FILE, Plan
from runner.running import engine, folders, session
from runner.running.engine import Result
from runner.running.publishing import Publishing
from runner.terminal import summary
from runner.terminal.progress import Progress


def main(words: Sequence[str]) -> int:
    started = time.monotonic()
    folder = folders.new_folder("sweeps")
    plan = composition.plan(words, folder)
    if not plan.cells:
        return 0  # Hydra was asked to tell something (--cfg job), and has
    if plan.resume:
        if not plan.is_sweep:
            raise BadInput("resume: only a sweep can be resumed.", "Add -m, or leave it out.")
        folder = folders.earlier(plan.resume, "sweeps", PLAN_FILE, "sweep")
    elif not plan.is_sweep:
        folder = folders.new_folder("runs")
    with session.measured(plan, folder, Progress(), words) as done:
        _show(plan, done.result, time.monotonic() - started, done.publishing)
    return done.result.exit_code


def _show(plan: Plan, result: Result, seconds: float, publishing: Publishing) -> None:
    """Make the views that belong in the folder, and say what came of it: results on stdout, one
    warning on stderr where the store took nothing."""
    if plan.is_sweep:
        from runner import report
        from runner.export import frames  # after the last trial: pandas is large

        frames.write(result.folder)
        made = None if result.interrupted else report.write(result.folder)
        links = None if result.interrupted else publishing.links(engine.sweep_id(result.folder))
        print(summary.of_sweep(plan, result, seconds, links, made), flush=True)
        if not result.interrupted:
            publishing.publish_sweep(result.folder)
    else:
        print(summary.of_run(result.folder, seconds, publishing.page))
    if publishing.problem:
        print(f"runner: {publishing.problem}", file=sys.stderr)
    if result.interrupted:
        print(f"runner: {result.interrupted}; what was finished is kept.", file=sys.stderr)
