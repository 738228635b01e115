"""The store from the parent's side: requests to the worker process, each answered by a future.

The parent never imports MLflow (a second or two, 200 MB). A thread of its own hands requests to the
worker, one at a time, and sleeps while the worker does, so that neither disturbs a timing trial.
Whoever waits for answers waits a bounded time. The first time that the store fails, or is too slow,
it is given up for the rest of the command: records are safe, and `publish` brings them in later.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from runner.config import Tracking
from runner.errors import BadInput, StoreError
from runner.store.location import (
    Links,
    StoredRun,
    locate_store,
    make_mlflow_environment,
    make_python_path,
)

SERVER_SECONDS = 5.0
"""The longest that one answer of a server is waited for."""

LOCAL_SECONDS = 60.0
"""The same of the embedded store, and to import MLflow: the machine may be busy."""

LOCK_SECONDS = LOCAL_SECONDS / 2
"""How long the worker waits for an embedded store that somebody else is writing to."""

HURRIED_SECONDS = 10.0
"""The longest that all answers together are waited for when the user asked to stop."""

SWEEP_SECONDS = 60.0
"""The longest that it may take to store a sweep's report."""

T = TypeVar("T")


class StoreClient:
    """A worker process that has MLflow, and what it was asked to do."""

    def __init__(self, tracking: Tracking, outputs: Path, log: Path | None = None) -> None:
        """Start the worker and return at once. What MLflow prints is added to the file `log`."""
        self._location = locate_store(tracking, outputs)
        self._seconds = LOCAL_SECONDS if self._location.database else SERVER_SECONDS
        self._deadline = math.inf
        self._log = log
        self._problem: str | None = None
        self._lock = threading.Lock()
        self._requests: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._unfinished: deque[tuple[Future[Any], float]] = deque()
        self._process = self._start_worker()
        # A daemon, so that a program can end beside a server that does not answer.
        self._thread = threading.Thread(target=self._serve, name="store", daemon=True)
        self._thread.start()
        self._request("open", [asdict(self._location), LOCK_SECONDS], LOCAL_SECONDS)
        self._prepared: Future[None] = self._request("prepare", None, self._seconds)

    def publish(self, folder: Path) -> Future[StoredRun]:
        """Bring in the record in `folder`."""
        return self._request("publish", str(folder.resolve()), self._seconds, StoredRun)

    def publish_sweep(self, folder: Path) -> Future[StoredRun]:
        """Complete the run of the sweep in `folder`: its table, its report."""
        return self._request("publish_sweep", str(folder.resolve()), SWEEP_SECONDS, StoredRun)

    def save_view(self, sweep: str | None) -> Future[Links]:
        """Save the view of a sweep, or of all runs, and return its pages."""
        return self._request("save_view", sweep, self._seconds, Links)

    def wait(self) -> None:
        """Return when all futures are done and the worker is asleep, or it has been given up.

        Each answer may take its own time; the first that takes longer gives the store up.
        """
        while self._unfinished:
            future, seconds = self._unfinished[0]
            if wait_for_all([future], self._seconds_left(seconds)).not_done:
                self._give_up(f"{self._location.name}: no answer in time")
            self._unfinished.popleft()  # unless this was interrupted

    def hurry(self) -> None:
        """Let all waiting together, and the end, take `HURRIED_SECONDS` from now on."""
        self._deadline = min(self._deadline, time.monotonic() + HURRIED_SECONDS)

    def close(self) -> None:
        """End the worker, once all that it was asked to do is done. May be called twice.

        While it still gets ready and was asked for nothing, there is nothing to wait for.
        """
        futures = [future for future, _ in self._unfinished]
        is_wanted = self._prepared.done() or futures[-1:] != [self._prepared]
        try:
            if self._process and not self._problem and is_wanted:
                seconds = self._seconds_left(self._seconds)
                if not wait_for_all(futures, seconds).not_done:
                    self._process.communicate(timeout=seconds)  # the end of its input ends it
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._give_up(f"{self._location.name}: closed already")
            self._requests.put(None)
            self._thread.join()
            if self._process:
                with suppress(BrokenPipeError), self._process:  # closes its pipes
                    pass

    def _start_worker(self) -> subprocess.Popen[bytes] | None:
        outputs = Path(self._location.outputs)
        try:
            outputs.mkdir(parents=True, exist_ok=True)
            with (self._log or Path(os.devnull)).open("ab") as noise:
                # Its own session: Ctrl-C in the terminal is the parent's to handle. In outputs/:
                # whatever MLflow might write by itself never lands where the user stands.
                return subprocess.Popen(
                    [sys.executable, "-P", "-m", "runner.store.worker", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=noise,
                    cwd=outputs,
                    env={**make_mlflow_environment(os.environ), "PYTHONPATH": make_python_path()},
                    start_new_session=True,
                )
        except OSError as error:
            self._problem = f"{self._location.name}: {error.strerror}"
            return None

    def _request(
        self, name: str, argument: Any, seconds: float, answer: Callable[..., T] | None = None
    ) -> Future[T]:
        future: Future[T] = Future()
        self._unfinished.append((future, seconds))
        self._requests.put((future, lambda: self._exchange(name, argument, answer)))
        return future

    def _serve(self) -> None:
        """Do one request after the other, until there are no more: the thread."""
        while request := self._requests.get():
            future, exchange = request
            try:
                future.set_result(exchange())
            except Exception as error:
                future.set_exception(error)

    def _exchange(self, name: str, argument: Any, answer: Callable[..., Any] | None) -> Any:
        line = b""
        with suppress(OSError):  # the worker has ended
            if self._process and not self._problem:
                assert self._process.stdin is not None
                assert self._process.stdout is not None
                self._process.stdin.write(json.dumps([name, argument]).encode() + b"\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
        if not line:
            log = f" (see {self._log})" if self._log else ""
            raise self._give_up(f"{self._location.name}: its process ended{log}")
        found = json.loads(line)
        if "problem" not in found:
            return answer(**found["result"]) if answer else None
        if found["is_fatal"]:
            raise self._give_up(found["problem"])
        raise BadInput(found["problem"], found["remedy"])

    def _seconds_left(self, seconds: float) -> float:
        return max(0.0, min(seconds, self._deadline - time.monotonic()))

    def _give_up(self, problem: str) -> StoreError:
        """End the worker: what is stuck must not wake up in the middle of a timing trial."""
        with self._lock:  # the thread and whoever waits may both find out
            self._problem = self._problem or problem
            if self._process and self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            return StoreError(self._problem)
