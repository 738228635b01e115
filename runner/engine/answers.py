"""What a verb that measures asks for, what it decides, and what it says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from runner.cell import ClusterSpec
from runner.config import Experiment, Tracking
from runner.engine.events import Listener, Result
from runner.engine.requests import Source


class Answer(ABC):
    """The second half of a verb: made once its words are read and TensorFlow is loading."""

    cluster: ClusterSpec | None = None
    """Workers that take the cells; None: this machine."""
    candidates: Sequence[Experiment] = ()
    """All that may be asked for: a machine that can't run one of them refuses at once."""
    progress: Listener | None = None
    """What is shown meanwhile; None: the cells and trials so far."""
    listeners: Sequence[Listener] = ()
    """They are told after the files of a record are written, and before the store."""
    shows_store: bool = False
    """True if the pages in the tracking store are printed after the answer."""
    resume_command: str = ""
    """The command that goes on where the measurement was stopped."""

    def __init__(self, source: Source, folder: Path, tracking: Tracking | None) -> None:
        """Take what decides which cells to measure, where they are kept, and the store, if any."""
        self.source, self.folder, self.tracking = source, folder, tracking

    def finish(self, result: Result) -> int:
        """Decide and write what came of the measurement; return the exit code."""
        return result.exit_code

    @abstractmethod
    def render(self, result: Result, seconds: float) -> str:
        """Return the text that is printed; it only reads what `finish` has decided."""
