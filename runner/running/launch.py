"""A plan under a launcher that distributes: each cell runs its own trials, in a job of its own.

The plan has been checked here before the launcher is asked for anything. A job finds its place in
the sweep's folder, which it must be able to reach, and leaves there what any run leaves; what came
of the sweep is read from that folder, whatever the launcher says. Trials of different cells don't
take turns then, and may disturb each other: the record says so (`in_rounds`).
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.composing import composition
from runner.errors import Interrupted
from runner.isolation.server import Server
from runner.machine import lifeline
from runner.plan import PLAN_FILE, Plan, Planned
from runner.records import Status
from runner.running import engine, environment, folders, lifecycle
from runner.running.engine import Publisher, Result

_LAUNCHER = "RUNNER_LAUNCHER"
"""The variable that tells a job which process asked for it."""


def run_all(
    plan: Plan,
    words: Sequence[str],
    folder: Path,
    machine: Mapping[str, Any],
    publisher: Publisher,
) -> Result:
    """Hand every cell to the launcher, wait until all have ended, and see what they left."""
    status, reason, interrupted = Status.KILLED, "its job ended without a record", None
    os.environ[_LAUNCHER] = str(os.getpid())
    try:
        composition.launch(words, folder, run_cell)
    except Interrupted as stop:
        interrupted = stop
        status, reason = Status.INTERRUPTED, str(stop)
        _end_children()
    except Exception as error:  # whatever a launcher raises, the cells' records are what counts
        first_line = f"{type(error).__name__}: {error}".splitlines()[0]
        reason += f" ({first_line[:300]})"
    runs = [engine.open_cell(cell, folder, plan.swept, plan.launcher) for cell in plan.cells]
    for run in runs:
        if not run.closed:  # a job that still goes on puts its own record in this one's place
            lifecycle.abandon(run, status, reason)
            lifecycle.close_run(run, machine)
        if not interrupted:
            publisher.publish(run.folder)
    if not interrupted:
        publisher.wait_ready()
    return Result(folder, tuple(run.outcome for run in runs), interrupted)


def run_cell(planned: Planned, folder: Path, launcher: str) -> None:
    """In a job: what is missing of one cell. One that was sent twice waits for the first."""
    # loky, which is joblib's, names itself the way to start processes; the server's can't know it.
    multiprocessing.set_start_method("forkserver", force=True)
    _end_with_the_launcher()
    swept = folders.kept(folder / PLAN_FILE, {"swept": list[str]})["swept"]
    cell = folder / str(planned.number)
    with folders.held(cell, wait=True):
        run = engine.open_cell(planned, folder, swept, launcher)
        server = Server(folders.log_file(cell))  # warm for a second cell, ends with the process
        seed = run.experiment.seed
        machine = environment.describe()
        engine.run_all([run], cell, server, machine, engine.nobody, engine.nobody, seed)


def _end_children() -> None:
    """Jobs that run as processes of ours end with us; those of a cluster are its own to end."""
    for pid in reversed(list(lifeline.descendants(os.getpid()))):
        with suppress(ProcessLookupError, FileNotFoundError):
            # Python's trackers of shared resources tidy up, and then end by themselves.
            if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


@functools.cache
def _end_with_the_launcher() -> None:
    """Of a job that is a process of the launcher's on this machine: joblib's would go on for half a
    minute after their parent was killed."""
    if os.environ.get(_LAUNCHER) == str(os.getppid()):
        lifeline.end_after(os.getppid())
