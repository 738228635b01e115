"""The tracking store as a plan sees it: it gets each record as it ends, and nothing depends on it.

What ends before the store is ready waits for it; its problems become one warning at the end.
"""

from __future__ import annotations

from pathlib import Path

from runner import tracking
from runner.config import Tracking
from runner.tracking import Links, StoreProblem, Tracker


class Publishing:
    """Everything of one plan, whose folder is `folder`, on its way into the store."""

    def __init__(self, tracker: Tracker, choice: Tracking | None, folder: Path) -> None:
        self._tracker = tracker
        self._later = tracking.publish_command(folder, choice) if choice else ""
        self._ready = False
        self._waiting: list[Path] = []
        self._reason: str | None = None
        self.page: str | None = None
        """Of the last record that the store took."""

    @property
    def problem(self) -> StoreProblem | None:
        if self._reason is None:
            return None
        return StoreProblem(self._reason, f"Bring it in later: {self._later}")

    def wait_ready(self) -> None:
        """Wait until the store takes records, or is given up; then what waited goes in."""
        if not self._ready:
            self._tracker.wait_ready()
            self._ready = True
        waiting, self._waiting = self._waiting, []
        for folder in waiting:
            self.publish(folder)

    def publish(self, folder: Path) -> None:
        """Bring in the record in `folder`, as soon as the store is ready."""
        if not self._ready:
            self._waiting.append(folder)
            return
        answer = self._tracker.publish(folder)
        if isinstance(answer, StoreProblem):
            self._reason = self._reason or answer.reason
        elif answer is not None:
            self.page = answer.page

    def publish_sweep(self, folder: Path) -> None:
        """Add the report and the pictures of a whole sweep, once its cells are in."""
        answer = None if self._reason else self._tracker.publish_sweep(folder)
        if isinstance(answer, StoreProblem):
            self._reason = answer.reason

    def links(self, sweep: str) -> Links | None:
        """Where the sweep opens ready to read; None where the store lacks some of it."""
        answer = None if self._reason else self._tracker.links(sweep)
        if isinstance(answer, StoreProblem):
            self._reason = answer.reason
            return None
        return answer
