"""The search for one cell's leak after the other: measure, judge, try what could help.

Every part is a run of the engine's, with a record of its own, and the remedies of a cell are run as
a sweep's cells are; so a remedy that looks good can be compared, reported and published as any run
can.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner import places, records
from runner.judging import leak as judging
from runner.judging.leak import Leak
from runner.leak import cells, remedies
from runner.leak.cells import Attempt
from runner.plan import Plan, Planned
from runner.running import engine, session
from runner.terminal.progress import Progress, swept_words


def command(cell: Planned, attempt: Attempt) -> str:
    """What repeats the cell with the remedy: its own words, but for those that the remedy says
    otherwise, since no word may be said twice."""
    otherwise = {word.partition("=")[0] for word in attempt.words}
    words = [word for word in cell.overrides if word.lstrip("+").partition("=")[0] not in otherwise]
    flags = [flag for folder in places.own_confs() for flag in ("--config-dir", str(folder))]
    return shlex.join(["python", "-m", "runner", "leak", *flags, *words, *attempt.words])


@dataclass
class Search:
    """Fills `leaks` as it goes, by the name of the cell; what is finished stays if it is cut."""

    plan: Plan
    folder: Path
    with_remedies: bool = True
    leaks: dict[str, Leak] = field(default_factory=dict)
    _number: int = 0

    def run(self) -> None:
        self._progress = Progress()
        try:
            with session.opened(self.folder) as self._session:
                for cell in self.plan.cells:
                    self._seek(cell)
        finally:
            self._progress.close()

    def _seek(self, cell: Planned) -> None:
        name = self._name(cell)
        wanted = replace(cells.to_measure(cell), number=self._next())
        (folder,) = self._measure(wanted)
        leak = judging.judge(records.read(folder))
        self.leaks[name] = leak
        tried = []
        if self.with_remedies and (attempts := [*cells.attempts(cell, leak)]):
            trials = [cells.tried(wanted, self._next(), attempt, leak) for attempt in attempts]
            for attempt, folder in zip(attempts, self._measure(*trials), strict=True):
                record = records.read(folder)
                tried.append(remedies.outcome(attempt.change, command(cell, attempt), leak, record))
        self.leaks[name] = replace(leak, remedies=(*tried, *remedies.in_code(leak)))

    def _next(self) -> int:
        self._number += 1
        return self._number - 1

    def _measure(self, *wanted: Planned) -> list[Path]:
        """Each in a folder of its own; their trials take turns, or run side by side, as a sweep's
        do."""
        runs = [engine.open_cell(cell, self.folder, (), None) for cell in wanted]
        result = engine.run_all(
            runs,
            self.folder,
            self._session.server,
            self._session.machine,
            self._progress,
            engine.nobody,
            self.plan.cells[0].experiment.seed,
        )
        if result.interrupted:
            raise result.interrupted
        return [run.folder for run in runs]

    def _name(self, cell: Planned) -> str:
        said = {key: cell.said.get(key) for key in self.plan.swept}
        return swept_words(said) or cell.experiment.scenario_name
