"""A process that publishes while a measurement goes on; the parent never imports MLflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from runner.config import Tracking
from runner.store.location import locate_store, make_mlflow_environment, make_python_path
from runner.store.publisher import Published

IDLE_SECONDS = 60.0
"""Longest wait for one answer at the end. MLflow gives a silent server up after some ten seconds; a
busy machine may take longer to import it."""

HURRIED_SECONDS = 10.0
"""Longest wait for all answers together when the user asked to stop."""

LOCK_SECONDS = 30.0
"""Longest wait of the process for an embedded store that somebody else is writing to."""

_LOOK_SECONDS = 0.01
"""Time between two looks at the process, once nothing more is measured."""


class BackgroundPublisher:
    """Publishes folders in a process of its own, which can be stopped for a while."""

    def __init__(self, tracking: Tracking, outputs: Path, log: Path) -> None:
        """Start the process and return at once. What MLflow prints is added to the file `log`."""
        location = locate_store(tracking, outputs)
        self._name, self._log = location.name, log
        self._asked: list[str] = []
        self._unsent = b""
        self._problem: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # A file and no pipe: the process never waits for this one to read.
        self._answers = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        try:
            outputs.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as noise:
                # Its own session: Ctrl-C in the terminal is the parent's to handle. In outputs/:
                # whatever MLflow might write by itself never lands where the user stands.
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", "runner.store.publisher", str(os.getpid())),
                        *(json.dumps(asdict(location)), str(LOCK_SECONDS)),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=self._answers,
                    stderr=noise,
                    cwd=outputs,
                    env={**make_mlflow_environment(os.environ), "PYTHONPATH": make_python_path()},
                    start_new_session=True,
                    bufsize=0,
                )
        except OSError as error:
            self._problem = error.strerror
            return
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def publish(self, folder: Path) -> None:
        """Have the record or the sweep in `folder` brought in, after those before it."""
        self._asked.append(str(folder.resolve()))
        self._unsent += os.fsencode(self._asked[-1]) + b"\n"
        self._send()

    def pause(self) -> None:
        """Stop the process where it is, so that it takes no processor from a timing trial.

        Before its first line the process would not notice the end of this one.
        """
        while self._process and self._process.poll() is None and not self._count_bytes():
            time.sleep(_LOOK_SECONDS)
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def finish(self, seconds: float | None = None) -> list[Published]:
        """Wait until all is published, and return what came of each folder that was asked for.

        Each answer may take `IDLE_SECONDS`, or all together `seconds`. What has no answer by then
        has a problem instead.
        """
        self.resume()
        self._wait(seconds)
        answers = self._read_answers()
        self.close()
        known = {answer.folder for answer in answers}
        if any(answer.is_final for answer in answers):
            return answers
        problem = f"{self._name}: {self._problem}"
        return answers + [
            Published(folder, problem=problem, is_final=True)
            for folder in self._asked
            if folder not in known
        ]

    def close(self) -> None:
        """End the process, whatever it is at. May be called twice."""
        self._answers.close()
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(BrokenPipeError), self._process:  # closes its pipe, and waits
            pass
        self._process = None

    def _wait(self, seconds: float | None) -> None:
        """Return when the process has ended, or has taken too long; then the problem is set."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        deadline = time.monotonic() + (seconds or IDLE_SECONDS)
        answered = 0
        while self._process.poll() is None:
            self._send()
            if not self._unsent:
                self._process.stdin.close()  # the end of its input ends it
            if (size := self._count_bytes()) > answered and seconds is None:
                answered, deadline = size, time.monotonic() + IDLE_SECONDS
            if time.monotonic() > deadline:
                self._problem = "no answer in time"
                return
            time.sleep(_LOOK_SECONDS)
        self._problem = f"its process ended (see {self._log})"

    def _read_answers(self) -> list[Published]:
        if self._process is None:
            return []
        self._answers.seek(0)
        _, *lines = self._answers.read().split(b"\n")[:-1] or [b""]  # what follows is cut short
        return [Published(**json.loads(line)) for line in lines]

    def _count_bytes(self) -> int:
        return os.fstat(self._answers.fileno()).st_size

    def _send(self) -> None:
        """Pass on what fits into the pipe. What a process that has ended lacks shows at the end."""
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        with suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                sent = os.write(self._process.stdin.fileno(), self._unsent)
                self._unsent = self._unsent[sent:]

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
