"""A run or a sweep: compose, check, then measure, keep, track and show."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from runner import compose, console, environment, lifecycle, places, sweep, tracking
from runner.compose import Plan
from runner.errors import BadInput, Interrupted
from runner.isolation.server import Server


def main(words: Sequence[str]) -> int:
    started = time.monotonic()
    folder = lifecycle.new_folder("sweeps")
    plan = compose.plan(words, folder)
    if plan.resume:
        folder = _resumed(plan)
    elif not plan.is_sweep:
        folder = lifecycle.new_folder("runs")
    with _signals():
        return _measure(plan, folder, started)


def _measure(plan: Plan, folder: Path, started: float) -> int:
    runs = sweep.open_plan(plan, folder)
    log = lifecycle.log_file(folder)
    server = Server(log)
    server.start()  # TensorFlow loads while everything else gets ready
    tracker = tracking.open_tracking(plan.cells[0].experiment.tracking, places.outputs())
    tracker.prepare(log)
    machine = environment.describe()
    progress = console.Progress()
    publisher = console.Publishing(tracker)
    try:
        seed = plan.cells[0].experiment.seed
        result = sweep.run_all(runs, folder, server, machine, progress, publisher, seed)
        progress.close()
        console.show(plan, result, started, publisher)
        return result.exit_code
    finally:
        progress.close()
        tracker.close()
        server.stop()


def _resumed(plan: Plan) -> Path:
    """The folder of the sweep to go on with."""
    if not plan.is_sweep:
        raise BadInput("resume: only a sweep can be resumed.", "Add -m, or leave it out.")
    assert plan.resume is not None
    if plan.resume == "latest":
        known = sorted((places.outputs() / "sweeps").glob(f"*/*/{sweep.PLAN_FILE}"))
        if not known:
            raise BadInput("resume=latest: there is no sweep yet.", "Leave it out to start one.")
        return known[-1].parent
    folder = Path(plan.resume).resolve()
    if not (folder / sweep.PLAN_FILE).exists():
        raise BadInput(f"resume={plan.resume}: is no sweep's folder.", "Name one, or say latest.")
    return folder


@contextmanager
def _signals() -> Iterator[None]:
    """The first Ctrl-C or SIGTERM stops the work in order; more of them change nothing."""

    def stop(number: int, _: FrameType | None) -> None:
        for each in watched:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, stop) for each in watched}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
