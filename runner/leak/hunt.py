"""The source behind `leak`: measure the cell, judge what grows, try what could help.

Every part is a run with a record of its own, so that a remedy that looks good can be compared,
reported and published as any run can.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner import paths
from runner.analysis.selection import name_cell
from runner.cell import Cell, Plan
from runner.config import format_word
from runner.engine.dialogues import Dialogue, Dialogues
from runner.engine.grid import make_question
from runner.engine.requests import Evidence, Request
from runner.leak import cells, remedies
from runner.leak.findings import Leak
from runner.leak.judgement import judge

RESULT_FILE = "leak.json"


class LeakHunt(Dialogues):
    """Answers one cell after the other; what is answered stays when it is stopped."""

    must_have_device = True

    def __init__(self, plan: Plan, folder: Path, with_remedies: bool = True) -> None:
        super().__init__([self._hunt()])
        self.leaks: dict[str, Leak] = {}
        """By the name of the cell."""
        self.seed = plan.cells[0].experiment.seed
        self.question = make_question(plan)
        self._plan, self._folder, self._with_remedies = plan, folder, with_remedies
        self._count = 0

    @property
    def is_answered(self) -> bool:
        """Return True once every cell has an answer that is clear."""
        is_clear = all(leak.verdict != "unclear" for leak in self.leaks.values())
        return is_clear and len(self.leaks) == len(self._plan.cells)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the answers, each with its cell."""
        return [{"cell": name, **leak.to_json()} for name, leak in self.leaks.items()]

    def _hunt(self) -> Dialogue:
        for cell in self._plan.cells:
            swept = {key: cell.said.get(key) for key in self._plan.swept}
            name = name_cell(swept) or cell.experiment.scenario_name
            prepared = cells.prepare_cell(cell)
            (run,) = yield [self._request(prepared, swept)]
            leak = judge(run.get_record())
            self._keep(name, leak)
            found = cells.list_remedies(cell, leak) if self._with_remedies else []
            runs = yield [
                self._request(
                    cells.apply_remedy(prepared, each, leak),
                    {**swept, **{key: format_word(value) for key, value in each.fields.items()}},
                )
                for each in found
            ]
            tried = [
                remedies.judge_remedy(
                    each.change, cells.write_command(cell, each), leak, run.get_record()
                )
                for each, run in zip(found, runs, strict=True)
            ]
            self._keep(name, replace(leak, remedies=(*tried, *remedies.suggest_changes(leak))))

    def _request(self, cell: Cell, swept: Mapping[str, str | None]) -> Request:
        number, self._count = self._count, self._count + 1
        evidence = Evidence.from_measure(cell.experiment.measure, settles_peak=False)
        return Request(replace(cell, number=number), evidence, place=str(number), swept=swept)

    def _keep(self, name: str, leak: Leak) -> None:
        self.leaks[name] = leak
        text = json.dumps({"schema": 1, "leaks": self.to_json()}, indent=1)
        paths.write_text(self._folder / RESULT_FILE, text)
