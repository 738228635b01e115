"""The answers of a run and of a sweep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from runner import records
from runner.cell import Plan
from runner.compose.words import mask_override
from runner.engine import folders
from runner.engine.answers import Answer
from runner.engine.events import Result
from runner.engine.grid import Grid
from runner.engine.requests import Source
from runner.render.listeners import LogEcho, SweepFilesListener, has_records
from runner.render.text.progress import Progress
from runner.render.text.run_summary import summarize_run
from runner.render.text.sweep_summary import summarize_sweep


class RunAnswer(Answer):
    """One cell, measured and summed up."""

    def __init__(self, plan: Plan, *, as_json: bool, shows_log: bool) -> None:
        folder = folders.name_new_folder("runs")
        super().__init__(Grid(plan), folder, plan.cells[0].experiment.tracking)
        self.progress = Progress(plan)
        self.listeners = [LogEcho()] if shows_log else []
        self.shows_store, self._as_json = not as_json, as_json

    def render(self, result: Result, seconds: float) -> str:
        if not has_records(self.folder):  # the server was lost at once, or the disk is full
            return ""
        if self._as_json:
            return _write_json(_read_brief(self.folder)[0])
        return summarize_run(self.folder, seconds)


class SweepAnswer(Answer):
    """A grid of cells, or a search, measured and compared."""

    def __init__(self, plan: Plan, words: Sequence[str], *, as_json: bool) -> None:
        folder = folders.choose_folder("sweeps", plan.resume, "sweep")
        source: Source = Grid(plan)
        if plan.search:
            from runner.search.source import SearchSource  # with Optuna

            source = SearchSource(plan, [mask_override(word) for word in words])
            self.candidates = [cell.experiment for cell in plan.cells]
        super().__init__(source, folder, plan.cells[0].experiment.tracking)
        self.cluster = plan.cluster
        self.progress = Progress(plan)
        self._files = SweepFilesListener()
        self.listeners = [self._files]
        self.shows_store, self._as_json, self._plan = not as_json, as_json, plan

    def render(self, result: Result, seconds: float) -> str:
        if not has_records(self.folder):
            return ""
        if self._as_json:
            return _write_json(_read_brief(self.folder))
        return summarize_sweep(self._plan, result, seconds, self._files.report)


def _read_brief(folder: Path) -> list[dict[str, Any]]:
    """Return the records at or below a folder, each with its folder and without what only
    `record.json` has: the trials, and what was live at the peak."""
    readable, _ = records.read_each(records.find(folder), records.read_brief)
    rows = []
    for path, record in readable:
        row = {"folder": str(path.resolve()), **msgspec.to_builtins(record)}
        del row["trials"], row["allocations"]
        rows.append(row)
    return rows


def _write_json(content: Any) -> str:
    return json.dumps(content, indent=1, allow_nan=False)
