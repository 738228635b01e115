"""The parent's side: each cell is a task of Dask, and what comes back of it is written here."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from runner.cell import ClusterSpec, TrialSpec
from runner.config import Experiment
from runner.engine import environment
from runner.engine.cluster.clusters import Connection, connect
from runner.engine.cluster.worker import WarmServer, measure_cell
from runner.engine.events import ClusterOpened, Notifier, TrialEnded, TrialTaken
from runner.engine.run import Run
from runner.engine.user_folder import UserFolder
from runner.errors import CodeChanged, RunnerError, ServerError, get_first_line
from runner.machine import Machine
from runner.records import Status

_GO_ON = "Then repeat the words with resume=latest: what came back is kept."


@dataclass
class ClusterExecutor:
    """Has workers of Dask run whole cells, each worker one: another would be lost with it."""

    spec: ClusterSpec
    machine: Machine = field(default_factory=environment.describe_machine)  # until a cell is back
    _connection: Connection | None = None
    _open: dict[int, Run] = field(default_factory=dict)
    _tasks: dict[int, Any] = field(default_factory=dict)
    _messages: SimpleQueue[Sequence[Any]] = field(default_factory=SimpleQueue)
    """A cell's number; with the kind and index of a trial that begins, else the cell is done."""
    _name: str = field(default_factory=lambda: f"runner-{secrets.token_hex(8)}")  # plugin, topic

    def check(self, experiments: Sequence[Experiment], must_have_device: bool) -> None:
        """Connect; raise `Unavailable` where no worker can be asked for."""
        self._connection = self._connection or connect(self.spec)

    def prepare(self, folder: Path, seed: int) -> None:
        """Workers load TensorFlow for themselves."""

    def run_round(self, runs: Sequence[Run], notify: Notifier) -> Iterator[Run]:
        """Have workers run all that these runs lack; yield each as it comes back."""
        connection, self._connection = self._connection or connect(self.spec), None
        try:
            yield from self._run(connection, runs, notify)
        finally:
            connection.client.cancel(list(self._tasks.values()))
            if connection.cluster is None:  # the workers live on
                with suppress(Exception):
                    connection.client.unregister_worker_plugin(self._name)
            connection.close()

    def _run(self, connection: Connection, runs: Sequence[Run], notify: Notifier) -> Iterator[Run]:
        client, workers = connection.client, min(self.spec.workers, len(runs))
        page = client.dashboard_link if find_spec("bokeh") else None
        slowest_first = sorted(runs, key=Run.estimate_seconds, reverse=True)
        self._open.update(enumerate(slowest_first))
        waiting = iter(list(self._open))
        notify(ClusterOpened(client.scheduler.address, page, client.scheduler_info(0)["n_workers"]))
        client.subscribe_topic(self._name, lambda event: self._messages.put(event[1]))
        try:
            client.register_plugin(WarmServer(self._name, UserFolder.read()), self._name)
        except Exception as error:  # what a worker has against it
            raise ServerError(f"a worker can't measure: {error}", _GO_ON) from error
        while self._open:
            for number in islice(waiting, workers - len(self._tasks)):
                self._submit(client, number)
            connection.keep_workers(workers)
            with suppress(Empty):
                number, *trial = self._messages.get(timeout=1.0)
                if trial and number in self._open:
                    run = self._open[number]
                    notify(TrialTaken(run, TrialSpec(run.experiment, *trial)))
                elif not trial:
                    task = self._tasks.pop(number)
                    for following in islice(waiting, 1):  # before a listener takes its time
                        self._submit(client, following)
                    yield self._finish(self._open.pop(number), task, notify, workers)

    def _submit(self, client: Any, number: int) -> None:
        work = pickle.dumps(self._open[number].pack())
        task = client.submit(measure_cell, self._name, number, work, pure=False, retries=1)
        task.add_done_callback(lambda _: self._messages.put([number]))
        self._tasks[number] = task

    def _finish(self, run: Run, task: Any, notify: Notifier, workers: int) -> Run:
        """Return the run with what its worker has measured, or with the reason why it has not."""
        try:
            machine, files = task.result()
        except Exception as error:
            if isinstance(error, CodeChanged):
                raise
            why = get_first_line(error).partition(" Inspecting")[0]
            if task.status == "cancelled":
                raise ServerError(f"Dask's scheduler is gone: {why}", _GO_ON) from error
            if isinstance(error, RunnerError | ImportError):  # and no other cell there
                raise ServerError(f"a worker can't measure: {error}", _GO_ON) from error
            run.stop(Status.KILLED, f"no worker has finished it; Dask says: {why}")
            return run
        for trial in run.take(machine, files):
            spec = TrialSpec(run.experiment, trial.kind, trial.index)
            notify(TrialEnded(run, spec, (trial.facts.seconds or 0.0) / workers))
        return run
