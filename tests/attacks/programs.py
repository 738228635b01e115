"""Programs that break what the runner stands on, each in a child of one warm server.

Whatever they do is an outcome with its phase and a reason that can be printed. Figures of a trial
that completed are what they can be: no span without time, no step too few. Nothing is left in the
folder for temporary files or of shared memory, and the next trial is untouched.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from runner.cell import TrialSpec
from runner.config import Experiment
from runner.processes.server import TrialServer
from runner.records import Phase, Status, Trial
from tests.attacks.breaks import BREAKS, HARMLESS, LEAST_SECONDS, SHARED, Hostile
from tests.conftest import ANYWHERE, BRIEF, UNTRACKED

MEASURE = replace(BRIEF, timeout_seconds=30.0)
KINDS = ("timing", "timing", "memory")
PHASES = ("build", "first_call", "steps")


def run_programs(folder: Path, count: int) -> Iterator[str | None]:
    """Run so many programs, two at a time."""
    scratch = folder / "scratch"
    scratch.mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(scratch)
    server, shared = TrialServer(folder / "server.log"), f"runner-attack-{os.getpid()}"
    os.environ[SHARED] = shared
    try:
        with ThreadPoolExecutor(2) as threads:
            yield from threads.map(lambda number: _run_one(server, number), range(count))
        trial = server.run(_specify(Hostile((), "build", None), "timing"), 60.0)
        yield None if trial.outcome.completed else f"the last trial: {trial.outcome.words}"
        found = [str(each) for each in scratch.glob("*/*")]
        yield f"left in the scratch folder: {found}" if found else None
    finally:
        server.stop()
        tempfile.tempdir = before
        del os.environ[SHARED]
    left = [path.name for path in (*scratch.iterdir(), *Path("/dev/shm").glob(f"{shared}-*"))]
    yield f"left in the temporary folder, or shared: {left}" if left else None


def _specify(scenario: Hostile, kind: str) -> TrialSpec:
    experiment = Experiment("test", scenario, "eager", ANYWHERE, MEASURE, UNTRACKED, 4, 0)
    return TrialSpec(experiment, kind, 0)


def _run_one(server: TrialServer, number: int) -> str | None:
    chance = random.Random(f"program {number}")
    names = list(HARMLESS) if chance.random() < 0.7 else list(BREAKS)
    first = names[number % len(names)]
    others = chance.sample(names, chance.choice((0, 0, 1, 2)))
    error = chance.choice((None, None, None, number))
    scenario = Hostile((first, *others), chance.choice(PHASES), error)
    kind = chance.choice(KINDS)
    try:
        trial = server.run(_specify(scenario, kind), MEASURE.timeout_seconds)
    except Exception as worse:
        return f"{number}, {scenario}, {kind}: {type(worse).__name__}: {worse}"
    problem = judge(trial, scenario)
    return problem and f"{number}, {scenario}, {kind}: {problem}"


def judge(trial: Trial, scenario: Hostile) -> str | None:
    """Return what is wrong with what is known of a program's trial."""
    outcome = trial.outcome
    if not outcome.completed:
        if outcome.status is Status.TIMED_OUT:
            return "it hung"
        if not outcome.reason or outcome.phase not in [*Phase]:
            return f"{outcome}"
        outcome.reason.encode()
        if scenario.error is None and set(scenario.breaks) <= HARMLESS.keys():
            return f"{outcome}"
        return None
    if scenario.error is not None and "kill" not in scenario.breaks:
        return "its exception was lost"
    seconds = [each.seconds for each in trial.phases.values() if each.seconds is not None]
    if trial.kind == "timing":
        if len(trial.steps.seconds) != MEASURE.warmup_steps + MEASURE.steps:
            return f"{len(trial.steps.seconds)} steps"
        seconds += trial.steps.seconds
        if min(trial.steps.seconds) < LEAST_SECONDS:
            return f"a step of {min(trial.steps.seconds)} s"
    return None if all(0 < each < 60 for each in seconds) else f"seconds: {seconds}"
