"""The parent's side: workers measure, and each run is yielded as its record appears.

A worker is lost when Slurm or Ray says that it has ended and it had not reported so itself, or when
it is silent: one that is well reports that it is alive twice a minute. The cell that it was at goes
to the end of the queue, once; lost again, it is a failed one. A new worker takes a lost one's place
as long as cells are waiting.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from runner.cell import ClusterSpec, TrialSpec
from runner.config import Experiment
from runner.engine import environment
from runner.engine.cluster.cell_queue import CellQueue, Journal, Work
from runner.engine.cluster.worker import SILENT_SECONDS
from runner.engine.events import CellTaken, Notifier, TrialEnded
from runner.engine.run import Run
from runner.errors import ServerError
from runner.machine import Machine
from runner.paths import shorten
from runner.records import RECORD_FILE, Status

_POLL_SECONDS = 0.2
_SEEN_SECONDS = 90.0
"""The longest that a network file system may take to show a file of another machine."""
_MOST_ATTEMPTS = 2
"""The number of workers that may take a cell: one that ends its workers shall not meet all."""


class Cluster(Protocol):
    """Starts workers somewhere, and knows which of them have ended."""

    def start(self, queue: CellQueue, count: int) -> Sequence[str]:
        """Start so many workers, and return their names; raise `ServerError` if that fails."""

    def find_ended(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return which of these workers have ended, each with what is known of why."""

    def find_log(self, queue: CellQueue, name: str) -> Path:
        """Return the file that has a worker's last words."""

    def end(self, name: str) -> None:
        """End a worker that is silent."""

    def close(self, names: Sequence[str]) -> None:
        """Let go of these workers: nothing is left for them to do."""

    def abandon(self) -> str | None:
        """End what ends with the command; return what goes on all the same, and how to stop it."""


def open_cluster(spec: ClusterSpec) -> Cluster:
    """Return the cluster that was asked for; raise `Unavailable` if this machine can't reach it."""
    if spec.kind == "ray":
        from runner.engine.cluster.ray import RayCluster

        return RayCluster(spec.options)
    from runner.engine.cluster.slurm import SlurmCluster

    return SlurmCluster(spec.options)


@dataclass
class ClusterExecutor:
    """Has workers of a cluster run the trials of whole cells."""

    spec: ClusterSpec
    takes_turns: bool = False
    still_running: str | None = None
    """Workers that go on after an interruption, and how to stop them."""
    _cluster: Cluster | None = None
    _folder: Path = Path()
    _seed: int = 0

    @property
    def name(self) -> str:
        return self.spec.kind

    def check(self, experiments: Sequence[Experiment], must_have_device: bool) -> None:
        """Raise `Unavailable` if no worker can be started from here; what devices the workers'
        machines have is not known here."""
        self._cluster = self._cluster or open_cluster(self.spec)

    def prepare(self, folder: Path, seed: int) -> None:
        """Note where the cells are; workers load TensorFlow for themselves."""
        self._folder, self._seed = folder, seed

    @cached_property
    def machine(self) -> Machine:
        """This machine; where a worker has begun with a cell, its own counts instead."""
        return environment.describe_machine()

    def run_round(self, runs: Sequence[Run], notify: Notifier) -> Iterator[Run]:
        """Have workers run all that these runs lack; yield each as its record appears."""
        assert self._cluster is not None, "check() comes first"
        ordered = sorted(runs, key=_estimate_seconds, reverse=True)
        requests = tuple(run.request for run in ordered)
        queue = CellQueue.create(Work(self._folder, self.name, self._seed, requests))
        open_runs = dict(enumerate(ordered))
        pool = WorkerPool(self._cluster, queue, open_runs, self.spec.workers, notify)
        try:
            while open_runs:
                yield from pool.poll()
                time.sleep(_POLL_SECONDS)
            queue.close()
            self._cluster.close(list(pool.workers))
        except BaseException:
            self.still_running = self._cluster.abandon()
            pool.count_finished()
            raise


@dataclass
class Worker:
    """A worker as the parent knows it."""

    journal: Journal
    silent_from: float = float("inf")
    """The time by which it should have reported something; a job may wait in a queue for long."""
    taken_at: float = 0.0
    """When it took the cell that it is at."""
    has_taken: bool = False
    has_ended: bool = False
    why: str = ""


@dataclass
class WorkerPool:
    """The workers of one round: which cells are open, who is at which, and what was lost."""

    cluster: Cluster
    queue: CellQueue
    open_runs: dict[int, Run]
    """By the number of the request."""
    wanted: int
    """The number of workers that there shall be."""
    notify: Notifier
    workers: dict[str, Worker] = field(default_factory=dict)
    """By name, without those that have ended."""
    _attempts: Counter[int] = field(default_factory=Counter)
    """The number of workers that were lost with a request."""

    def poll(self) -> Iterator[Run]:
        """Start the workers that are wanted, read all journals; yield the runs that are over."""
        self._start_workers()
        ended = self.cluster.find_ended(list(self.workers))  # what they report now is their last
        for name, worker in list(self.workers.items()):
            yield from self._read_journal(name, worker)
            if name in ended:
                yield from self._drop(name, worker, ended[name])
            elif time.monotonic() > worker.silent_from:
                self.cluster.end(name)
                yield from self._drop(name, worker, "it was silent for too long, and was ended")

    def count_finished(self) -> None:
        """Count what workers have finished; of cells that were begun, note the machine."""
        for worker in self.workers.values():
            for message in worker.journal.read():
                if message.kind == "done" and message.number in self.open_runs:
                    self._finish(message.number)
        for run in self.open_runs.values():
            self._count_trials(run)

    def _start_workers(self) -> None:
        at_work = sum(not each.has_ended for each in self.workers.values())
        if at_work >= self.wanted:
            return
        unclaimed = self.queue.count_unclaimed()
        if not unclaimed and not self.workers:  # taken by one that was ended, but not at once
            for number in self.open_runs:
                self.queue.add(number)
                self._attempts[number] += 1
            unclaimed = len(self.open_runs)
        if count := min(self.wanted - at_work, unclaimed):
            for name in self.cluster.start(self.queue, count):
                self.workers[name] = Worker(Journal(self.queue.find_worker_folder(name)))

    def _read_journal(self, name: str, worker: Worker) -> Iterator[Run]:
        for message in worker.journal.read():
            worker.silent_from = time.monotonic() + SILENT_SECONDS
            number = message.number
            match message.kind:
                case "took" if number in self.open_runs:
                    worker.has_taken, worker.taken_at = True, time.monotonic()
                    self.notify(CellTaken(self.open_runs[number], name))
                case "done" if number in self.open_runs:
                    if _wait_until_visible(self.open_runs[number].folder / RECORD_FILE):
                        seconds = (time.monotonic() - worker.taken_at) / len(self.workers)
                        yield self._finish(number, seconds)
                case "ended" | "failed":
                    worker.has_ended, worker.why = True, message.why
                case _:
                    pass

    def _finish(self, number: int, seconds: float = 0.0) -> Run:
        """Return the run as its worker left it, and notify listeners of its new trials."""
        run = self.open_runs.pop(number)
        self._count_trials(run, seconds)
        run.is_closed = True
        return run

    def _count_trials(self, run: Run, seconds: float = 0.0) -> None:
        run.machine = environment.read_node(run.folder) or run.machine
        trials = run.read_new_trials()
        for trial in trials:
            run.count_trial(trial)
            spec = TrialSpec(run.experiment, trial.kind, trial.index)
            self.notify(TrialEnded(run, spec, seconds / len(trials)))

    def _drop(self, name: str, worker: Worker, why: str) -> Iterator[Run]:
        """Have the cells of a worker that has ended taken again; yield those that are given up."""
        del self.workers[name]
        why, log = worker.why or why, shorten(self.cluster.find_log(self.queue, name))
        for number in self.queue.list_claims(name):
            if number not in self.open_runs:
                continue
            run = self.open_runs[number]
            self._count_trials(run)
            self._attempts[number] += 1
            lost = self._attempts[number]
            if run.next is not None and lost < _MOST_ATTEMPTS:
                self.queue.add(number)
                continue
            run.stop(
                Status.KILLED,
                f"{lost} workers were lost while they measured it; of the last one: {why}; "
                f"its log is {log}",
            )
            yield self.open_runs.pop(number)
        if not worker.has_taken and (worker.why or not worker.has_ended):
            self.wanted -= 1  # another one would most likely not get further
            if not self.wanted and self.open_runs:
                raise ServerError(
                    f"no worker has taken a cell; of the last one: {why}.", f"Its log is {log}."
                )


def _estimate_seconds(run: Run) -> float:
    """Return about how long a run's missing trials take: as its own have, or else as its
    configuration lets them. The slowest first leaves the least waiting at the end."""
    trials = run.read_trials() if run.done else ()
    phases = [phase for trial in trials for phase in trial.phases.values()]
    taken = sum(phase.seconds or 0.0 for phase in phases)
    each = taken / len(trials) if trials else run.experiment.measure.max_seconds
    return run.count_missing().total() * each


def _wait_until_visible(file: Path) -> bool:
    """Return whether another machine's file is there; a network file system may take a moment."""
    deadline = time.monotonic() + _SEEN_SECONDS
    while not file.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
        list(file.parent.iterdir())  # which makes it look again
    return True
