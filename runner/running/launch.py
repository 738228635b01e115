"""A plan under a launcher that distributes: each cell runs its own trials, in a job of its own.

The plan has been checked here before the launcher is asked for anything. A job finds its place in
the sweep's folder, which it must be able to reach, and leaves there what any run leaves; what came
of the sweep is read from that folder, whatever the launcher says. Trials of different cells don't
take turns then, and may disturb each other: the record says so (`in_rounds`).
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner import places
from runner.composing import composition, launchers
from runner.errors import Interrupted
from runner.isolation.server import Server
from runner.machine import lifeline
from runner.plan import PLAN_FILE, Plan, Planned
from runner.records import Status
from runner.running import engine, environment, folders, lifecycle
from runner.running.engine import Publisher, Result
from runner.running.lifecycle import Run

_LAUNCHER = "RUNNER_LAUNCHER"
"""The variable that tells a job which process asked for it."""
_NODE_FILE = "node.json"
"""In a cell's folder: the machine that its job runs on."""
_THEIRS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", _LAUNCHER)
"""Variables that a job has of its own."""
_SET_BY_LAUNCHERS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Joblib and Ray set them for what they run; a cell has the threads that its configuration says."""


def run_all(
    plan: Plan,
    words: Sequence[str],
    folder: Path,
    machine: Mapping[str, Any],
    publisher: Publisher,
) -> Result:
    """Hand what is missing to the launcher, wait until all jobs have ended, and see what they
    left."""
    assert plan.launcher is not None
    status, interrupted, goes_on = Status.KILLED, None, None
    problems: dict[int, str] = {}

    def opened() -> list[Run]:
        return [engine.open_cell(cell, folder, plan.swept, plan.launcher) for cell in plan.cells]

    def missing() -> set[int]:
        return {run.planned.number for run in opened() if not run.closed}

    os.environ[_LAUNCHER] = str(os.getpid())
    try:
        problems = _hand_out(words, folder, missing)
    except Interrupted as stop:
        interrupted, status = stop, Status.INTERRUPTED
        goes_on = launchers.what_goes_on(plan.launcher)
        _end_children()
    runs = opened()
    for run in runs:
        if not run.closed:  # a job that still goes on puts its own record in this one's place
            problem = problems.get(run.planned.number)
            lost = "its job ended without a record" + (f" ({problem})" if problem else "")
            lifecycle.abandon(run, status, str(interrupted) if interrupted else lost)
            lifecycle.close_run(run, _node_of(run.folder) or machine)
        if not interrupted:
            publisher.publish(run.folder)
    if not interrupted:
        publisher.wait_ready()
    return Result(folder, tuple(run.outcome for run in runs), interrupted, goes_on)


def _hand_out(
    words: Sequence[str], folder: Path, missing: Callable[[], set[int]]
) -> dict[int, str]:
    """Have every missing cell run, in a job of its own. Returns why of those that left no record,
    where that is known.

    Workers in one pool, as joblib's are, all end where one is lost. Of the cells that had begun it
    is not known then whose end it was: they run once more, one at a time, and those that had not
    begun after them."""
    problems: dict[int, str] = {}

    def launch(numbers: set[int]) -> None:
        problems.update(composition.launch(words, folder, numbers, run_cell, _enter_from_here()))

    while left := missing() - set(problems):
        since = time.time()
        try:
            launch(left)
            break
        except BrokenProcessPool as error:
            left = missing() - set(problems)
            begun = {number for number in left if _began(folder / str(number), since)}
            if len(begun) < 2:
                problems.update(dict.fromkeys(begun or left, _said(error)))
                continue
            for number in sorted(begun):
                try:
                    launch({number})
                except Exception as again:  # as below
                    problems[number] = _said(again)
        except Exception as error:  # whatever a launcher raises, the cells' records are what counts
            for number in left:
                with folders.held(folder / str(number), wait=True):  # its job may go on
                    problems[number] = _said(error)
    return problems


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


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
        if run.done and (earlier := _node_of(cell)):
            machine = environment.together(earlier, machine)
        places.write(cell / _NODE_FILE, json.dumps(machine))
        engine.run_all([run], cell, server, machine, engine.nobody, engine.nobody, seed)


def _node_of(cell: Path) -> dict[str, Any] | None:
    """The machine that a cell's job ran on, which for the record of a lost one is not this one."""
    try:
        found: dict[str, Any] = json.loads(places.text_of(cell / _NODE_FILE))
    except (OSError, ValueError):
        return None
    return found


def _began(cell: Path, since: float) -> bool:
    try:
        return (cell / _NODE_FILE).stat().st_mtime >= since
    except OSError:
        return False


def _enter_from_here() -> Callable[[], None]:
    """What makes a job, wherever it is, stand where this command stands, with what measurements
    depend on: the folder where the user's code is looked up, and the variables by name. What
    belongs to a node, as which cards the job may use, stays the node's."""
    said = {
        name: value
        for name, value in os.environ.items()
        if (name in environment.FLAGS or name.startswith("RUNNER_")) and name not in _THEIRS
    }
    return functools.partial(_enter, str(Path.cwd()), said)


def _enter(folder: str, variables: Mapping[str, str]) -> None:
    os.chdir(folder)
    for name in _SET_BY_LAUNCHERS:
        os.environ.pop(name, None)
    os.environ.update(variables)


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
