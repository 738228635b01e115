"""A run or a sweep: its words, and what is said of it at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from runner.errors import BadInput
from runner.running import loading


def main(words: Sequence[str]) -> int:
    started = time.monotonic()
    with loading.ahead(loading.wanted_by(words)):
        return _run(words, started)


def _run(words: Sequence[str], started: float) -> int:
    # Imported late: TensorFlow is loading meanwhile.
    from runner.composing import composition
    from runner.plan import PLAN_FILE
    from runner.running import folders
    from runner.running.interruption import interruptible

    folder = folders.new_folder("sweeps")
    with interruptible():
        plan = composition.plan(words, folder)
    if not plan.cells:
        return 0  # Hydra was asked to tell something (--cfg job), and has

    # And these once there is something to measure: a mistake is answered without them.
    from runner.running import session
    from runner.terminal import summary
    from runner.terminal.progress import Progress

    if plan.resume:
        if not plan.is_sweep:
            raise BadInput("resume: only a sweep can be resumed.", "Add -m, or leave it out.")
        folder = folders.earlier(plan.resume, "sweeps", PLAN_FILE, "sweep")
    elif not plan.is_sweep:
        folder = folders.new_folder("runs")
    with session.shown(plan, folder, Progress(), words) as (done, views):
        seconds = time.monotonic() - started
        print(summary.of_whole(plan, done.result, seconds, views.report), flush=True)
        if pages := views.pages():
            print(summary.of_pages(pages), flush=True)
    if done.publishing.problem:
        print(f"runner: {done.publishing.problem}", file=sys.stderr)
    if done.result.interrupted:
        print(f"runner: {done.result.interrupted}; what was finished is kept.", file=sys.stderr)
        if done.result.goes_on:
            print(f"  {done.result.goes_on}", file=sys.stderr)
    return done.result.exit_code
