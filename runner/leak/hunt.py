"""The source behind `leak`: measure the cell, judge what grows, try what could help.

Every part is a run with a record of its own, so that a remedy that looks good can be compared,
reported and published as any run can.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner import paths
from runner.analysis.growth import HOST_LEAST_STEPS, HOST_SECONDS, HOST_STEPS
from runner.analysis.selection import name_cell
from runner.cell import Cell, Plan
from runner.compose import composition
from runner.config import format_word
from runner.engine.dialogues import Dialogue, Dialogues
from runner.engine.events import Event, TrialEnded
from runner.engine.grid import make_question
from runner.engine.requests import Evidence, Request
from runner.leak import remedies, suggestions
from runner.leak.findings import Leak
from runner.leak.judgement import judge
from runner.records import Record
from runner.render.text.console import redraw_line
from runner.script.source import LIKELIEST

RESULT_FILE = "leak.json"

_LEAST: dict[str, float] = {
    "measure.host_processes": 1,
    "measure.steps": HOST_STEPS,
    "measure.min_steps": HOST_LEAST_STEPS,
    "measure.max_seconds": HOST_SECONDS,
    "measure.timeout_seconds": 600.0,
    "measure.reads_clean": True,
}
"""The least that slow growth and the tracer of a host trial need."""

_LIKELY_REMEDIES = 2
"""Half of the most that are usually tried: nobody knows yet if something grows."""


def prepare_cell(cell: Cell) -> Cell:
    """Return the cell with what the answer needs, where the user has not said otherwise."""
    measure = cell.experiment.measure
    fields: dict[str, object] = {
        key: type(least)(max(least, getattr(measure, key.rpartition(".")[2])))
        for key, least in _LEAST.items()
        if key not in cell.said
    }
    if (
        cell.experiment.spec.scenario == "script"
        and cell.experiment.spec.parameters["step"] is None
    ):
        fields["scenario.step"] = LIKELIEST
    return composition.change_cell(cell, cell.number, fields)


class LeakHunt(Dialogues):
    """Answers one cell after the other. It listens, too: what is known of the open one after a
    timing or a host trial is shown at once, and stays when it is stopped."""

    must_have_device = True

    def __init__(self, plan: Plan, folder: Path, with_remedies: bool = True) -> None:
        super().__init__([self._hunt()])
        self._plan, self._folder, self._with_remedies = plan, folder, with_remedies
        self.leaks: dict[str, Leak] = {}
        """By the name of the cell."""
        self.seed = plan.cells[0].experiment.seed
        self.question = make_question(plan)
        self._count = 0
        self._measured = ""
        """The name of the cell whose own trials are taken now."""
        self._ahead = Counter[str]()
        for cell in plan.cells:
            self._ahead += self._count_trials(prepare_cell(cell)) + self._count_remedies()

    def count_likely(self) -> Counter[str]:
        """Return the trials that may be asked for later, by kind: of cells to come and remedies."""
        return self._ahead

    def _count_trials(self, cell: Cell) -> Counter[str]:
        evidence = Evidence.from_measure(cell.experiment.measure)
        return Counter(memory=evidence.memory, timing=evidence.timing, host=evidence.host)

    def _count_remedies(self) -> Counter[str]:
        return Counter(timing=_LIKELY_REMEDIES if self._with_remedies else 0)

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
            prepared = prepare_cell(cell)
            self._measured = name
            self._ahead -= self._count_trials(prepared)
            (run,) = yield [self._request(prepared, swept)]
            self._measured = ""
            record = run.get_record()
            leak = judge(record)
            if step := _find_sought_step(record):
                cell, prepared = (
                    composition.change_cell(known, known.number, {"scenario.step": step})
                    for known in (cell, prepared)
                )
            longest = max((trial.facts.seconds or 0.0 for trial in record.trials), default=0.0)
            self._keep(name, leak)
            worth_trying = remedies.list_remedies(cell, leak) if self._with_remedies else []
            self._ahead -= self._count_remedies()
            runs = yield [
                self._request(
                    remedies.apply_remedy(prepared, remedy, leak, longest),
                    {**swept, **{key: format_word(value) for key, value in remedy.fields.items()}},
                )
                for remedy in worth_trying
            ]
            tried = [
                remedies.judge_remedy(
                    remedy.change, remedies.write_command(cell, remedy), leak, run.get_record()
                )
                for remedy, run in zip(worth_trying, runs, strict=True)
            ]
            self._keep(name, replace(leak, remedies=(*tried, *suggestions.suggest_changes(leak))))

    def on(self, event: Event) -> None:
        """Show what is known so far, once all timing trials are there, and the host trial."""
        if not isinstance(event, TrialEnded) or not self._measured:
            return
        missing = event.run.count_missing()
        if event.trial.kind == "memory" or missing[event.trial.kind]:
            return
        leak = judge(event.run.get_record())
        self._keep(self._measured, leak)
        redraw_line("", sys.stderr)
        print(f"{self._measured} so far: {leak.sentence} ({leak.seen} steps)", file=sys.stderr)

    def close(self) -> None:
        """Do nothing: nothing is held open."""

    def _request(self, cell: Cell, swept: Mapping[str, str | None]) -> Request:
        number, self._count = self._count, self._count + 1
        evidence = Evidence.from_measure(cell.experiment.measure, settles_peak=False)
        return Request(replace(cell, number=number), evidence, place=str(number), swept=swept)

    def _keep(self, name: str, leak: Leak) -> None:
        self.leaks[name] = leak
        text = json.dumps({"schema": 1, "leaks": self.to_json()}, indent=1)
        paths.write_text(self._folder / RESULT_FILE, text)


def _find_sought_step(record: Record) -> str | None:
    """Return the step that a script's trials found, for its remedies to take the same."""
    if record.spec.parameters.get("step") != LIKELIEST:
        return None
    programs = [trial.facts.program for trial in record.trials if trial.facts.program]
    return programs[0].step if programs else None
