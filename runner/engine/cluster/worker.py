"""The worker's side: one cell is one task, measured by a warm server that stays between tasks."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from distributed import WorkerPlugin, get_worker

from runner.engine.events import Event, Listener, Notifier, TrialStarted
from runner.engine.run import open_run
from runner.engine.scheduler import LocalExecutor
from runner.engine.user_folder import UserFolder
from runner.machine import Machine
from runner.processes.server import TrialServer
from runner.records import LOG_FILE, TRIALS_FILE


def measure_cell(plugin: str, number: int, work: bytes) -> tuple[Machine, dict[str, bytes]]:
    """Measure a cell where that plugin is; the classes of the work may be found only there."""
    server: WarmServer = get_worker().plugins[plugin]
    return server.measure(number, work)


class WarmServer(WorkerPlugin, Listener):  # type: ignore[misc]
    """Measures the cells of one command in a worker, one at a time, however many threads it has;
    and leaves the worker's process as it was, as other people's tasks may run there."""

    def __init__(self, name: str, user: UserFolder) -> None:
        self.name, self._user = name, user

    def setup(self, worker: Any) -> None:
        """Take a place for files; a server is started for the first cell."""
        self._worker, self._lock, self._key, self._number = worker, Lock(), "", 0
        self._folder: Path | None = None
        self._scratch = tempfile.TemporaryDirectory(dir=worker.local_directory)
        self._timer, self._executor = Timer(0, lambda: None), LocalExecutor(TrialServer())

    def teardown(self, worker: Any) -> None:
        """End the server, with the trial that it runs."""
        self._timer.cancel()
        self._executor.server.terminate()
        self._scratch.cleanup()

    def transition(self, key: str, start: str, finish: str, **_: Any) -> None:
        """End the trial of a cell that nobody waits for any more: its command was stopped."""
        if finish == "cancelled" and key == self._key:
            self._executor.server.terminate()
            self._executor = LocalExecutor(TrialServer())

    def measure(self, number: int, work: bytes) -> tuple[Machine, dict[str, bytes]]:
        """Measure a cell, and report each of its trials as it begins."""
        scratch = Path(self._scratch.name)
        self._folder = self._folder or self._user.find(scratch)
        with self._lock, self._user.entered(self._folder):
            self._timer.cancel()
            self._key, self._number = get_worker().get_current_task(), number
            try:
                with tempfile.TemporaryDirectory(dir=scratch) as folder:
                    return self._measure(work, Path(folder))
            finally:
                self._timer = Timer(30.0, self._executor.close)  # the command may have been killed
                self._timer.daemon = True
                self._timer.start()

    def _measure(self, work: bytes, folder: Path) -> tuple[Machine, dict[str, bytes]]:
        executor, (request, files) = self._executor, pickle.loads(work)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        executor.check([request.cell.experiment], must_have_device=False)
        executor.prepare(Path(self._scratch.name), seed=0)  # its log outlasts the cell
        run, notify = open_run(request, folder, executor.machine), Notifier([self])
        while run.next is not None:
            list(executor.run_round([run], notify))
        left = {name: (folder / name).read_bytes() for name in (TRIALS_FILE, LOG_FILE)}
        here, there = os.fsencode(Path.cwd()), os.fsencode(self._user.path)
        return run.machine, {name: text.replace(here, there) for name, text in left.items()}

    def on(self, event: Event) -> None:
        """Pass on that a trial begins."""
        if isinstance(event, TrialStarted):
            self._worker.log_event(self.name, (self._number, event.trial.kind, event.trial.index))
