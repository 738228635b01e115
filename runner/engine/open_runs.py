"""The runs of one measurement, each in its folder: which are open, and how each has ended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner import paths, records, user_code
from runner.engine.requests import Request
from runner.engine.run import Run, open_run
from runner.errors import BadInput, CodeChanged, Interrupted, RunnerError
from runner.records import RECORD_FILE, Outcome, Status, SweepPlace

if TYPE_CHECKING:
    from runner.engine.requests import Executor


@dataclass
class OpenRuns:
    """Opens the runs that a source asks for; of those that are over only outcomes are kept."""

    folder: Path
    executor: Executor
    _runs: dict[str, Run] = field(default_factory=dict)
    """By place."""
    _outcomes: dict[str, Outcome] = field(default_factory=dict)
    _code: user_code.Files = field(default_factory=dict)
    """The user's files that the trials of all runs loaded."""

    @property
    def pending(self) -> list[Run]:
        """The runs that lack trials."""
        return [run for run in self._runs.values() if run.next is not None]

    @property
    def finished(self) -> list[Run]:
        """The runs that lack none, and which the source has not seen yet."""
        return [run for run in self._runs.values() if run.next is None]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcome of each run that was kept, in the order of the requests."""
        return tuple(self._outcomes.values())

    def open(self, requests: Sequence[Request]) -> list[Run]:
        """Open the run of each request, as far as it had come."""
        opened = [self._open(request) for request in requests]
        _check_code(opened)
        for run in opened:
            self._runs[run.request.place] = run
            self._code |= run.known_code
            run.known_code = self._code
            if run.request.is_kept:
                self._outcomes[run.request.place] = run.outcome
        return opened

    def _open(self, request: Request) -> Run:
        folder = self.folder / request.place
        if request.swept is None:
            return open_run(request, folder, self.executor.machine)
        if (folder / RECORD_FILE).exists():
            there = None
            with suppress(BadInput):  # `open_run` reports one that can't be read
                there = records.read_brief(folder).cell
            if there not in (None, request.cell.experiment.cell):
                raise BadInput(
                    f"resume={paths.shorten(self.folder)}: {paths.shorten(folder)} was "
                    "measured from another cell than the one that is asked for now.",
                    "The program or a library may have changed. Leave resume out to start anew.",
                )
        sweep = SweepPlace(
            id=name_sweep(self.folder),
            cell=request.cell.number,
            swept=dict(request.swept),
            experiment=request.cell.said.get("experiment"),
        )
        return open_run(request, folder, self.executor.machine, sweep)

    def forget(self, run: Run) -> None:
        """Keep of a run that the source has seen its outcome alone."""
        del self._runs[run.request.place]
        if run.request.is_kept:
            self._outcomes[run.request.place] = run.outcome

    def abandon(self, stopped: Interrupted | RunnerError) -> None:
        """Give open runs the reason why they are incomplete; after what the user did, their
        record."""
        is_users_doing = isinstance(stopped, Interrupted | CodeChanged)
        status = Status.FAILED if isinstance(stopped, CodeChanged) else Status.KILLED
        status = Status.INTERRUPTED if isinstance(stopped, Interrupted) else status
        for run in list(self._runs.values()):
            if run.request.is_kept and not run.is_closed:
                run.stop(status, str(stopped.args[0]))
                if is_users_doing:
                    run.close()
            self.forget(run)


def name_sweep(folder: Path) -> str:
    """Return the name of a sweep: its date and time."""
    return "-".join(folder.parts[-2:])


def _check_code(runs: Sequence[Run]) -> None:
    """Refuse to go on with other code of the user's than what is there was measured from."""
    if all(run.next is None for run in runs):
        return
    changed = {file: run for run in reversed(runs) for file in user_code.list_changed(run.code)}
    if changed:
        file, run = next(iter(changed.items()))
        more = f", and so have {len(changed) - 1} more" if len(changed) > 1 else ""
        raise BadInput(
            f"resume: {file} has changed since cell {run.cell.number} was measured{more}.",
            "Restore the file as it was, or leave resume out to measure every cell anew.",
        )
