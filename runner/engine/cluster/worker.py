"""A worker: takes cell after cell from the queue and measures each, with one warm server.

It may run on another machine, and outlive the command that started it. What it measures lies in the
cell's folder as if it had been measured there; what it reports of itself is in its journal.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from runner.config import Experiment
from runner.engine import environment, folders
from runner.engine.cluster.cell_queue import CellQueue, Journal, Message, Work
from runner.engine.events import CellsOpened, Event, TrialStarted
from runner.engine.measure import measure
from runner.engine.requests import Request
from runner.engine.run import Run
from runner.engine.scheduler import LocalExecutor
from runner.errors import RunnerError
from runner.processes.server import TrialServer

_OWN_VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Its node decides which cards it may use."""
_SET_BY_CLUSTERS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Ray sets them for what it runs; a cell has the threads of its configuration."""

PULSE_SECONDS = 30.0
"""The time between two reports that a worker is alive: a line each, which disturbs no trial."""
SILENT_SECONDS = 180.0
"""The longest silence of a worker that is well: a pulse, the 90 s that a network file system may
take to show a file of another machine, and a busy machine."""

_BETWEEN_SECONDS = 600.0
"""The longest that a worker takes between cells: imports over a slow disk."""
_TRIAL_SECONDS = 1200.0
"""The longest that a trial takes beyond its own deadlines: TensorFlow may be loaded, twice."""
_MOST_DEADLINES = 4
"""A trial is run again where the server is lost, or a limit on host memory met."""
_MOST_ADDED = 20
"""More trials than were asked for, to know a graph's peak."""


@dataclass(frozen=True)
class CommandContext:
    """The folder of a command, its import path, and the variables that measurements depend on."""

    folder: str
    import_path: tuple[str, ...]
    variables: Mapping[str, str]

    @classmethod
    def read(cls) -> CommandContext:
        """Return this process's own."""
        variables = {
            name: value
            for name, value in os.environ.items()
            if (name in environment.FLAGS or name.startswith("RUNNER_"))
            and name not in _OWN_VARIABLES
        }
        return cls(str(Path.cwd()), tuple(sys.path), variables)

    def enter(self) -> None:
        """Have this process stand there, so that the user's code is found as it was there."""
        os.chdir(self.folder)
        sys.path[:] = dict.fromkeys((*self.import_path, *sys.path))
        for name in _SET_BY_CLUSTERS:
            os.environ.pop(name, None)
        os.environ.update(self.variables)


class Pulse:
    """Reports that the worker is alive, for as long as it may be at what it does.

    A worker that hangs falls silent as one that was stopped or lost its machine does: the parent
    needs one bound for all of them.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._is_over = Flag()
        self.expect_progress(_BETWEEN_SECONDS)
        Thread(target=self._beat, name="pulse", daemon=True).start()

    def expect_progress(self, seconds: float) -> None:
        """Fall silent if this is not called again within that time."""
        self._until = time.monotonic() + seconds

    def _beat(self) -> None:
        while not self._is_over.wait(PULSE_SECONDS):
            if time.monotonic() < self._until:
                with suppress(OSError):  # the disk may be full for a moment
                    self._journal.write(Message("alive"))

    def close(self) -> None:
        """Report nothing any more."""
        self._is_over.set()


def take_cells(queue_folder: Path, name: str, context: CommandContext) -> None:
    """Measure cells of the queue until none is left; raise what ended it before."""
    queue = CellQueue(queue_folder)
    folder = queue.find_worker_folder(name)
    journal = Journal(folder)
    journal.write(Message("started"))
    with closing(Pulse(journal)) as pulse:
        try:
            context.enter()
            work = queue.read_work()
            local = LocalExecutor(TrialServer(folder), work.launcher, takes_turns=False)
            with closing(local) as executor:
                executor.prepare(folder, work.seed)  # TensorFlow loads from now on, once
                source = SharedCells(work, queue, name, journal, pulse)
                stopped = measure(source, work.folder, executor, [source], is_part=True).stopped
            if stopped:
                raise stopped
        except BaseException as error:
            is_ours = isinstance(error, RunnerError)
            why = str(error.args[0]) if is_ours else f"{type(error).__name__}: {error}"
            with folders.make_log(folder).open("a") as log:
                traceback.print_exc(file=log)
            journal.write(Message("failed", why=why))
            raise
    journal.write(Message("ended"))


@dataclass
class SharedCells:
    """Asks for the cells that this worker takes, one after the other.

    As a listener it keeps beside each cell the machine that measures it.
    """

    work: Work
    queue: CellQueue
    name: str
    journal: Journal
    pulse: Pulse
    question: None = None
    must_have_device: bool = False
    _numbers: Iterator[int] = field(init=False)
    _number: int | None = None
    """The request that is being measured."""
    _lock: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._numbers = self.queue.take(self.name)

    @property
    def seed(self) -> int:
        return self.work.seed

    def ask(self) -> Sequence[Request]:
        """Take the next cell, once the one before is done."""
        if self._number is not None or (number := next(self._numbers, None)) is None:
            return ()
        self._number, request = number, self.work.requests[number]
        self.journal.write(Message("took", number))
        # A worker of an earlier start may still be at it: then this one finds what that one left.
        evidence = request.evidence
        trials = evidence.memory + evidence.timing + evidence.host + _MOST_ADDED
        self.pulse.expect_progress(trials * _longest_trial(request.cell.experiment))
        self._lock.enter_context(folders.lock_folder(self.work.folder / request.place, wait=True))
        return [request]

    def tell(self, run: Run) -> None:
        self._lock.close()
        self.journal.write(Message("done", self._number))
        self.pulse.expect_progress(_BETWEEN_SECONDS)
        self._number = None

    def on(self, event: Event) -> None:
        match event:
            case CellsOpened(runs):
                for run in runs:
                    environment.keep_node(run.folder, run.machine)
            case TrialStarted(run, _):
                self.pulse.expect_progress(_longest_trial(run.experiment))
            case _:
                pass

    def close(self) -> None:
        """Let go of the cell that it was at."""
        self._lock.close()


def _longest_trial(experiment: Experiment) -> float:
    return _MOST_DEADLINES * experiment.measure.timeout_seconds + _TRIAL_SECONDS
