"""How long a trial takes whose server is killed under it, at a hundred random moments.

    TIMES=10 python -m tests.benchmarks killed_server

A third of the kills find the server loading TensorFlow, the others find it with a trial at work, or
just idle. The server is replaced and the trial run again: it must be complete, and within the time
that loading takes, on a busy machine a minute. Nothing may be left of the killed: no process, no
temporary folder.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner.cell import TrialSpec
from runner.config import Experiment
from runner.processes import process_tree
from runner.processes.server import TrialServer
from runner.records import Trial
from tests.conftest import ANYWHERE, BRIEF, UNTRACKED
from tests.integration.processes.faults import Fault

TIMES = int(os.environ.get("TIMES", "100"))
MOST_SECONDS = 60.0
"""A trial that takes longer has stalled; 5 s on a machine that is not busy."""


@dataclass(frozen=True)
class Kill:
    """A kill, and what came of the trial under it."""

    moment: float
    """Seconds after the trial was asked for."""
    was_loading: bool
    seconds: float
    """From the kill to the trial's end."""
    status: str

    @property
    def is_fine(self) -> bool:
        return self.status == "completed" and self.seconds < MOST_SECONDS


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kills = []
        for kill in kill_often(TIMES, Path(folder)):
            kills.append(kill)
            if not kill.is_fine or len(kills) % 10 == 0:
                print(f"  {len(kills)}: {kill}", flush=True)
        left = [each.name for each in Path(folder).glob("runner-*")]
    for name, of_kind in (("loading", True), ("loaded", False)):
        seconds = [kill.seconds for kill in kills if kill.was_loading is of_kind]
        if seconds:
            median = statistics.median(seconds)
            print(f"  killed while {name}: {len(seconds)}, median {median:.1f} s, "
                  f"longest {max(seconds):.1f} s")  # fmt: skip
    bad = [kill for kill in kills if not kill.is_fine]
    print(f"{len(kills)} kills: {len(bad)} stalled or lost, {len(left)} folders left {left}")
    children = list(process_tree.list_children(os.getpid()))
    print(f"processes left: {children}")


def kill_often(times: int, folder: Path, seed: int = 0) -> Iterator[Kill]:
    """Kill a server at random moments, and yield each kill; temporary files go below the folder."""
    chance = random.Random(seed)
    tempfile.tempdir = str(folder)
    server = TrialServer(folder / "server.log")
    try:
        for number in range(times):
            yield _kill_once(server, chance, is_cold=number % 3 == 0)
    finally:
        server.stop()
        tempfile.tempdir = None


def _kill_once(server: TrialServer, chance: random.Random, is_cold: bool) -> Kill:
    if is_cold:
        server.stop()
    server.start()
    (zygote,) = server._zygotes.values()
    ends: list[Trial | BaseException] = []

    def run() -> None:
        experiment = Experiment(
            "test", Fault("none", "build"), "eager", ANYWHERE, BRIEF, UNTRACKED, 4, 0
        )
        try:
            ends.append(server.run(TrialSpec(experiment, "timing", 0), 60.0))
        except BaseException as error:
            ends.append(error)

    trial = threading.Thread(target=run, daemon=True)
    moment = chance.uniform(0.0, 4.0 if is_cold else 0.5)
    trial.start()
    time.sleep(moment)
    killed_at = time.monotonic()
    with suppress(ProcessLookupError):
        os.kill(zygote._process.pid, signal.SIGKILL)
    trial.join(10 * MOST_SECONDS)
    seconds = time.monotonic() - killed_at
    match ends:
        case [Trial() as ended]:
            status = f"{ended.outcome.status}"
        case [error]:
            status = f"{type(error).__name__}: {error}"
        case _:
            status = "it has not ended"
    return Kill(moment, is_cold, seconds, status)
