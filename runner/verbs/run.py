"""A run or a sweep: compose, check, then measure, keep, track and show."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from runner import places, tracking
from runner.composing import composition
from runner.errors import BadInput
from runner.isolation import look
from runner.isolation.server import Server
from runner.plan import PLAN_FILE, Plan
from runner.running import engine, environment, folders, launch
from runner.running.engine import Result
from runner.running.interruption import interruptible
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
    with interruptible():
        if not plan.is_sweep:
            look.require_device(plan.cells[0].experiment)
        return _measure(plan, words, folder, started)


def _measure(plan: Plan, words: Sequence[str], folder: Path, started: float) -> int:
    first = plan.cells[0].experiment
    with engine.open_plan(plan, folder) as runs:
        log = folders.log_file(folder)
        server, progress = Server(log), Progress()
        tracker = tracking.open_tracking(first.tracking, places.outputs())
        publishing = Publishing(tracker, first.tracking, folder)
        try:
            if not plan.launcher and any(run.next for run in runs):
                server.start()  # TensorFlow loads while everything else gets ready
            tracker.prepare(log)
            progress.announce(plan, runs)
            machine = environment.describe()
            if plan.launcher:
                result = launch.run_all(plan, words, folder, machine, publishing)
            else:
                result = engine.run_all(
                    runs, folder, server, machine, progress, publishing, first.seed
                )
            progress.close()
            _show(plan, result, time.monotonic() - started, publishing)
            return result.exit_code
        finally:
            progress.close()
            tracker.close()
            server.stop()


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
