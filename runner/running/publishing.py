"""The tracking store as a plan sees it: it gets each record as it ends, and nothing depends on it.

Nobody waits for it but timing trials, beside which it must be asleep, and the end of the command;
its problems become one warning there.
"""

from __future__ import annotations

from pathlib import Path

from runner import tracking
from runner.config import Tracking
from runner.tracking import Links, StoreProblem, Tracker

_MOST_SENT = 100
"""Records on their way at once: what is asked for and answered fits into the pipes between."""


class Publishing:
    """Everything of one plan, whose folder is `folder`, on its way into the store."""

    def __init__(self, tracker: Tracker, choice: Tracking | None, folder: Path) -> None:
        self._tracker = tracker
        self._later = tracking.publish_command(folder, choice) if choice else ""
        self._sent = 0
        self._reason: str | None = None
        self._page: str | None = None

    @property
    def problem(self) -> StoreProblem | None:
        if self._reason is None:
            return None
        return StoreProblem(self._reason, f"Bring it in later: {self._later}")

    def publish(self, folder: Path) -> None:
        """Bring in the record in `folder`, and return at once."""
        self._tracker.send(folder)
        self._sent += 1
        if self._sent == _MOST_SENT:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the store has what it was given, or is given up, and is at work no more."""
        for answer in self._tracker.collect():
            if isinstance(answer, StoreProblem):
                self._reason = self._reason or answer.reason
            else:
                self._page = answer.page
        self._sent = 0

    def end(self, *, is_hurried: bool) -> None:
        """The same at the end, where all that was given may be in; with little patience where the
        user has asked to stop."""
        if is_hurried:
            self._tracker.hurry()
        if self._sent:
            self.wait_ready()

    def publish_sweep(self, folder: Path) -> None:
        """Add the report and the pictures of a whole sweep, once its cells are in."""
        answer = None if self._reason else self._tracker.publish_sweep(folder)
        if isinstance(answer, StoreProblem):
            self._reason = answer.reason

    def page(self) -> str | None:
        """Of the last record that the store took, once it has all."""
        self.wait_ready()
        return self._page

    def links(self, sweep: str) -> Links | None:
        """Where the sweep opens ready to read; None where the store lacks some of it."""
        self.wait_ready()
        answer = None if self._reason else self._tracker.links(sweep)
        if isinstance(answer, StoreProblem):
            self._reason = answer.reason
            return None
        return answer
