"""Pass each record on to the tracking store; nothing else depends on it.

Nobody waits for it but timing trials, beside which it must be asleep, and the end of the command.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from runner import paths
from runner.config import Tracking
from runner.engine import folders
from runner.engine.events import (
    Event,
    MeasurementEnded,
    MeasurementStarted,
    RecordWritten,
    TrialStarted,
)
from runner.engine.open_runs import name_sweep
from runner.errors import BadInput, Interrupted, RunnerError, StoreError
from runner.store import active
from runner.store.client import StoreClient
from runner.store.location import LOCAL_UI, Links, StoredRun, write_publish_command


@dataclass
class StoreListener:
    """Brings each record into the tracking store as it is written, and a sweep's report at last."""

    tracking: Tracking
    folder: Path
    is_sweep: bool = False
    pages: str | Links | None = None
    """Where the run, or the sweep, opens in the store; None where it lacks some of it."""
    _client: StoreClient | None = None
    """None for tracking=none, and before anything is measured."""
    _answers: deque[Future[StoredRun]] = field(default_factory=deque)
    _has_cells: bool = False
    """What is measured are cells of one whole, which has a run of its own."""
    _problem: RunnerError | None = None

    def on(self, event: Event) -> None:
        if isinstance(event, MeasurementStarted) and self.tracking.kind != "none":
            log = folders.make_log(event.folder)
            self._client = StoreClient(self.tracking, paths.find_outputs(), log)
        if self._client is None:
            return
        match event:
            case RecordWritten(run):
                self._answers.append(self._client.publish(run.folder))
                self._has_cells |= run.request.swept is not None
            case TrialStarted(_, trial) if trial.is_timed:
                self._collect(self._client)  # nothing of its work is done beside a timing trial
            case MeasurementEnded(_, result):
                try:
                    self._end(self._client, is_hurried=result.stopped is not None)
                except Interrupted:
                    self._end(self._client, is_hurried=True)
                    raise
            case _:
                pass

    def close(self) -> None:
        """End the worker; raise `StoreError` if the store lacks something."""
        if self._client:
            self._client.close()
        if self._problem:
            later = write_publish_command(self.folder, self.tracking)
            remedy = f"Bring it in later: {later}"
            if isinstance(self._problem, BadInput):  # the record's own, and later is no better
                remedy = self._problem.remedy
            raise StoreError(f"Not in the tracking store: {self._problem.problem}.", remedy)

    @property
    def text(self) -> str:
        """Return the lines that say where the run, or the sweep, opens in the store."""
        if self.pages is None:
            return ""
        runs = self.pages.runs if isinstance(self.pages, Links) else self.pages
        lines = [f"  MLflow   {runs}"]
        if isinstance(self.pages, Links):
            lines.append(f"  charts   {self.pages.comparison}")
        if runs.startswith(LOCAL_UI):  # which is there while somebody serves it
            lines.append("           which `python -m runner ui` serves")
        return "\n".join(lines)

    def _end(self, client: StoreClient, *, is_hurried: bool) -> None:
        if is_hurried:
            client.hurry()
        self._collect(client)
        if not self._has_cells or is_hurried or self._problem:
            return
        links = client.save_view(name_sweep(self.folder)) if self.is_sweep else None
        self._answers.append(client.publish_sweep(self.folder))
        self._collect(client)
        if links and not links.exception():
            self.pages = links.result()

    def _collect(self, client: StoreClient) -> None:
        """Wait until the store has what it was given, or is given up, and is at work no more."""
        client.wait()
        while self._answers:
            answer = self._answers.popleft()
            error = answer.exception()
            if isinstance(error, RunnerError):
                self._problem = self._problem or error
            elif not self.is_sweep:
                self.pages = answer.result().page


class ActiveRunListener:
    """Logs each record to the MLflow run that is active in the user's own program, if one is."""

    def on(self, event: Event) -> None:
        if isinstance(event, RecordWritten) and (run_id := active.find_active_run()):
            active.log_record(event.run.get_record(), event.run.folder, run_id)

    def close(self) -> None:
        """There is nothing to let go of."""
