"""Pass each record on to the tracking store; nothing else depends on it.

Nobody waits for it but the end of the command.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runner import paths
from runner.config import Tracking
from runner.engine import folders
from runner.engine.events import (
    Event,
    MeasurementEnded,
    MeasurementStarted,
    RecordWritten,
    TrialEnded,
    TrialStarted,
)
from runner.errors import Interrupted, StoreError
from runner.store import active
from runner.store.background import HURRIED_SECONDS, BackgroundPublisher
from runner.store.location import LOCAL_UI, write_publish_command
from runner.store.publisher import Published


@dataclass
class StoreListener:
    """Has each record published as it is written, and a sweep when it is complete."""

    tracking: Tracking
    folder: Path
    published: Published | None = None
    """The run, or the sweep, in the store; None where it lacks some of it."""
    _publisher: BackgroundPublisher | None = None
    """None for tracking=none, and before anything is measured."""
    _has_cells: bool = False
    """True if what is measured are cells of one whole, which has a run of its own."""
    _problem: Published | None = None

    def on(self, event: Event) -> None:
        if isinstance(event, MeasurementStarted) and self.tracking.kind != "none":
            log = folders.make_log(event.folder)
            self._publisher = BackgroundPublisher(self.tracking, paths.find_outputs(), log)
        if self._publisher is None:
            return
        match event:
            case TrialStarted(_, trial) if trial.is_timed:
                self._publisher.pause()
            case TrialEnded():
                self._publisher.resume()
            case RecordWritten(run):
                self._publisher.publish(run.folder)
                self._has_cells |= run.request.swept is not None
            case MeasurementEnded(_, result):
                if self._has_cells and not result.stopped:
                    self._publisher.publish(self.folder)
                try:
                    self._finish(HURRIED_SECONDS if result.stopped else None)
                except Interrupted:
                    self._finish(HURRIED_SECONDS)
                    raise
            case _:
                pass

    def close(self) -> None:
        """End the process; raise `StoreError` if the store lacks something."""
        if self._publisher:
            self._publisher.close()
        if self._problem:
            remedy = self._problem.remedy  # of a record that is bad: later is no better
            if self._problem.is_final:
                later = write_publish_command(self.folder, self.tracking)
                remedy = f"Bring it in later: {later}"
            raise StoreError(f"Not in the tracking store: {self._problem.problem}.", remedy)

    @property
    def text(self) -> str:
        """Return the lines that say where the run, or the sweep, opens in the store."""
        if self.published is None or self.published.page is None:
            return ""
        page = self.published.table or self.published.page
        lines = [f"  MLflow   {page}"]
        if self.published.charts:
            lines.append(f"  charts   {self.published.charts}")
        if page.startswith(LOCAL_UI):  # which is there while somebody serves it
            lines.append("           which `python -m runner ui` serves")
        return "\n".join(lines)

    def _finish(self, seconds: float | None) -> None:
        """Wait until the store has what it was given, or is given up."""
        if self._publisher is None:
            return
        answers = self._publisher.finish(seconds)
        self._problem = next((answer for answer in answers if answer.problem), None)
        whole = str(self.folder.resolve())
        if self._problem is None:
            self.published = next((answer for answer in answers if answer.folder == whole), None)


class ActiveRunListener:
    """Logs each record to the MLflow run that is active in the user's own program, if one is."""

    def on(self, event: Event) -> None:
        if isinstance(event, RecordWritten) and (run_id := active.find_active_run()):
            active.log_record(event.run.get_record(), event.run.folder, run_id)

    def close(self) -> None:
        """There is nothing to let go of."""
