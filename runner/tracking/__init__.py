"""The tracking store, from the parent's side: MLflow in a process of its own, or nothing at all.

The parent never imports MLflow (a second, 200 MB). It starts a background process that imports it
and prepares the store while TensorFlow loads elsewhere, and hands it the folders of finished
records, one by one; between them the process sleeps, so that it can't disturb a timing trial.
It waits a bounded time for each answer. The first time that the store fails, or is too slow, it is
given up for the rest of the command: records are safe, and `publish` brings them in later.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from runner import places
from runner.config import Tracking
from runner.errors import BadInput

PATIENCE_SECONDS = 5.0
"""The longest that a run waits for one answer of a server."""

AT_HOME_SECONDS = 60.0
"""The same of the embedded store: there nothing is out of reach, but the machine may be busy."""

HURRIED_SECONDS = 10.0
"""The longest that whoever was told to stop waits for all that it had sent."""

SWEEP_SECONDS = 60.0
"""The longest that a sweep that has been summed up waits for its report and pictures."""

READY = 1
"""The number of the second answer that nobody asks for: the store is there (0), and what draws the
pictures too. Each has that long."""

LOCAL_UI = "http://127.0.0.1:5000"
"""Where `python -m runner ui` serves the embedded store, unless told otherwise."""


@dataclass(frozen=True)
class Place:
    """Which store, where its artifacts go (None: the server decides), where its pages are."""

    uri: str
    artifacts: str | None
    experiment: str
    pages: str
    outputs: str
    """The folder with what was measured here, the only one that files are taken from unasked."""

    @property
    def where(self) -> str:
        """How a person knows it."""
        return str(self.database or self.uri)

    @property
    def database(self) -> Path | None:
        """The embedded store's file."""
        return Path(unquote(self.uri.removeprefix("sqlite:///"))) if self.artifacts else None


@dataclass(frozen=True)
class TrackedRun:
    """A record's run in MLflow, and the address of its page."""

    run: str
    experiment: str
    page: str


@dataclass(frozen=True)
class StoreProblem:
    """Why the store has not got a record, and how to bring it in later."""

    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"Not in the tracking store: {self.reason}\n  {self.remedy}"


@dataclass(frozen=True)
class Links:
    """Pages that open ready to read: the table of runs, and some of them side by side."""

    runs: str
    comparison: str


class Tracker(Protocol):
    """Whatever finished records are shown to."""

    def prepare(self, log: Path | None = None) -> None:
        """Begin to get ready, and return at once. MLflow's noise is added to the file `log`."""
        ...

    def wait_ready(self, seconds: float | None = None) -> None:
        """Wait until its process is ready and asleep, or given up; `publish` says which."""
        ...

    def publish(self, folder: Path) -> TrackedRun | StoreProblem | None:
        """Bring the record in `folder` into the store; None where there is no store."""
        ...

    def send(self, folder: Path) -> None:
        """As `publish`, but return at once; `collect` has the answer."""
        ...

    def collect(self) -> list[TrackedRun | StoreProblem]:
        """Wait until all that was sent is in, or given up, and its process asleep: one answer for
        each. To be called before anything else is asked."""
        ...

    def hurry(self) -> None:
        """From here on all answers together have `HURRIED_SECONDS`, and so has the end."""
        ...

    def publish_sweep(self, folder: Path) -> TrackedRun | StoreProblem | None:
        """Add the report and the pictures of the sweep in `folder` to its first cell's run."""
        ...

    def links(self, sweep: str | None = None) -> Links | StoreProblem | None:
        """The pages of a sweep, or of all runs."""
        ...

    def close(self) -> None:
        """End the background process, if there is one. May be called twice."""
        ...


def open_tracking(tracking: Tracking, outputs: Path) -> Tracker:
    """What the configuration asks for; `prepare` starts it."""
    if tracking.kind == "none":
        return NoTracker()
    return BackgroundTracker(tracking, outputs)


def place_of(tracking: Tracking, outputs: Path) -> Place:
    """Where the records go. Raises `BadInput` where that is nowhere."""
    if tracking.kind == "none":
        raise BadInput("tracking=none: there is no store.", "Say tracking=local.")
    outputs = outputs.resolve()
    if tracking.kind == "server":
        uri = (tracking.uri or "").rstrip("/")  # well-formed, or there would be no `Tracking`
        return Place(uri, None, tracking.experiment, uri, str(outputs))
    return Place(
        uri=sqlite_uri(outputs / "mlflow.db"),
        artifacts=str(outputs / "artifacts"),
        experiment=tracking.experiment,
        pages=LOCAL_UI,
        outputs=str(outputs),
    )


def sqlite_uri(database: Path) -> str:
    return f"sqlite:///{str(database).replace('%', '%25').replace('?', '%3F')}"


def publish_command(path: Path, tracking: Tracking) -> str:
    """What to type to bring `path`, a run's or a sweep's folder, into the store later."""
    words = ["python", "-m", "runner", "publish", str(path)]
    if tracking.kind == "server":
        words += ["tracking=server", f"tracking.uri={tracking.uri}"]
    if tracking.experiment != "runner":
        words.append(f"tracking.experiment={tracking.experiment}")
    return shlex.join(words)


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that imports MLflow: silent, and never waiting for minutes."""
    quiet = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    }
    patient = {
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    }
    return {**patient, **inherited, **quiet}


def search_path() -> str:
    """Where a process that does not start in the user's folder finds the runner."""
    return os.pathsep.join(
        filter(None, [str(places.package().parent), os.environ.get("PYTHONPATH", "")])
    )


class NoTracker:
    """tracking=none: the record is all there is."""

    def prepare(self, log: Path | None = None) -> None:
        pass

    def wait_ready(self, seconds: float | None = None) -> None:
        pass

    def publish(self, folder: Path) -> TrackedRun | StoreProblem | None:
        return None

    def send(self, folder: Path) -> None:
        pass

    def collect(self) -> list[TrackedRun | StoreProblem]:
        return []

    def hurry(self) -> None:
        pass

    def publish_sweep(self, folder: Path) -> TrackedRun | StoreProblem | None:
        return None

    def links(self, sweep: str | None = None) -> Links | StoreProblem | None:
        return None

    def close(self) -> None:
        pass


class BackgroundTracker:
    """MLflow behind a pipe: one line of JSON a request, one an answer, numbered."""

    def __init__(self, tracking: Tracking, outputs: Path) -> None:
        self._tracking = tracking
        self._outputs = outputs
        self._place = place_of(tracking, outputs)
        self._patience_seconds = AT_HOME_SECONDS if self._place.database else PATIENCE_SECONDS
        self._at_last = math.inf
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Path | None = None
        self._given_up: str | None = None
        self._asked = READY
        self._answered = -1
        self._sent: list[tuple[int, Path]] = []
        self._unread = b""

    def prepare(self, log: Path | None = None) -> None:
        self._log = log
        try:
            self._outputs.mkdir(parents=True, exist_ok=True)
            with (log or Path(os.devnull)).open("ab") as noise:
                # Its own session: Ctrl-C in the terminal is the parent's to handle. In outputs/:
                # whatever MLflow might write by itself never lands where the user stands.
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "runner.tracking", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=noise,
                    cwd=self._outputs,
                    env={**environment(os.environ), "PYTHONPATH": search_path()},
                    start_new_session=True,
                )
        except OSError as error:
            self._given_up = f"{self._place.where}: {error.strerror}"
            return
        self._send(asdict(self._place))

    def wait_ready(self, seconds: float | None = None) -> None:
        for number in range(READY + 1):
            self._answer(number, seconds or self._patience_seconds)

    def publish(self, folder: Path) -> TrackedRun | StoreProblem | None:
        answer = self._ask({"publish": str(folder.resolve())})
        return TrackedRun(**answer) if answer else self._problem(folder)

    def send(self, folder: Path) -> None:
        self._sent.append((self._begin({"publish": str(folder.resolve())}), folder))

    def collect(self) -> list[TrackedRun | StoreProblem]:
        self.wait_ready()
        answers: list[TrackedRun | StoreProblem] = []
        while self._sent:  # what nobody was told of yet stays there, if this is interrupted
            number, folder = self._sent[0]
            answer = self._answer(number, self._patience_seconds)
            answers.append(TrackedRun(**answer) if answer else self._problem(folder))
            del self._sent[0]
        return answers

    def hurry(self) -> None:
        self._at_last = min(self._at_last, time.monotonic() + HURRIED_SECONDS)

    def publish_sweep(self, folder: Path) -> TrackedRun | StoreProblem | None:
        answer = self._ask({"publish_sweep": str(folder.resolve())}, SWEEP_SECONDS)
        return TrackedRun(**answer) if answer else self._problem(folder)

    def links(self, sweep: str | None = None) -> Links | StoreProblem | None:
        answer = self._ask({"links": sweep})
        return Links(**answer) if answer else self._problem(self._outputs)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        in_order = self._given_up is None and (self._answered >= READY or bool(self._sent))
        try:
            # The end of its input ends it, once what was sent is in. While it still imports MLflow
            # and was sent nothing, there is nothing to wait for.
            process.stdin.close()
            process.wait(self._left(self._patience_seconds) if in_order else 0.0)
        except (OSError, subprocess.TimeoutExpired):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
        self._given_up = self._given_up or f"{self._place.where}: closed already"

    def _ask(self, request: dict[str, Any], seconds: float | None = None) -> dict[str, Any] | None:
        """The answer, or None once the store has been given up."""
        return self._answer(self._begin(request), seconds or self._patience_seconds)

    def _begin(self, request: dict[str, Any]) -> int:
        """The number that its answer will have."""
        if self._process is None and self._given_up is None:
            self.prepare()
        self._asked += 1
        if self._process is not None:
            self._send(request)
        return self._asked

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self._give_up(self._ended())

    def _answer(self, number: int, seconds: float) -> dict[str, Any] | None:
        """Answers come in order; those that nobody waits for any more are passed over."""
        deadline = time.monotonic() + self._left(seconds)
        answer: dict[str, Any] = {}
        while self._process is not None and self._answered < number:
            answer = self._next_answer(self._process, deadline)
            self._answered = answer.get("number", self._answered)
            if "problem" in answer:
                self._give_up(answer["problem"])
        return None if self._process is None else answer.get("result")

    def _left(self, seconds: float) -> float:
        return max(0.0, min(seconds, self._at_last - time.monotonic()))

    def _next_answer(self, process: subprocess.Popen[bytes], deadline: float) -> dict[str, Any]:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return {"problem": f"{self._place.where}: no answer in time"}
                chunk = os.read(process.stdout.fileno(), 65536)
                if not chunk:
                    return {"problem": self._ended()}
                self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> str:
        log = f" (see {self._log})" if self._log else ""
        return f"{self._place.where}: its process ended{log}"

    def _give_up(self, reason: str) -> None:
        """What is stuck must not wake up in the middle of a timing trial: its process ends."""
        self._given_up = reason
        self.close()

    def _problem(self, path: Path) -> StoreProblem:
        command = publish_command(path, self._tracking)
        return StoreProblem(f"{self._given_up}.", f"Bring it in later: {command}")
