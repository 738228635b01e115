"""The answers of a run and of a sweep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from runner import records
from runner.cell import Plan
from runner.compose.words import mask_override
from runner.engine import folders
from runner.engine.answers import Answer
from runner.engine.events import Event, Listener, RecordWritten, Result
from runner.engine.grid import Grid
from runner.engine.requests import Source
from runner.records import Record
from runner.render.listeners import LogEcho, SweepFilesListener, has_records
from runner.render.text.progress import Progress
from runner.render.text.run_summary import summarize_run
from runner.render.text.sweep_summary import summarize_sweep


class RunAnswer(Answer, Listener):
    """One cell, measured and summed up. It is told of the record as it is written."""

    _record: Record | None = None

    def __init__(self, plan: Plan, *, as_json: bool, shows_log: bool) -> None:
        folder = folders.name_new_folder("runs")
        super().__init__(Grid(plan), folder, plan.cells[0].experiment.tracking)
        self.progress = Progress(plan)
        self.listeners = [self, LogEcho()] if shows_log else [self]
        self.shows_store, self._as_json = not as_json, as_json

    def on(self, event: Event) -> None:
        if isinstance(event, RecordWritten):
            self._record = event.run.get_record()

    def render(self, result: Result, seconds: float) -> str:
        if not has_records(self.folder):  # the server was lost at once, or the disk is full
            return ""
        record = self._record or records.read(self.folder)  # one that was stopped
        if self._as_json:
            return _write_json(_describe(self.folder, record))
        return summarize_run(record, self.folder, seconds)


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
            readable, _ = self._files.cells
            return _write_json([_describe(*row) for row in readable])
        return summarize_sweep(self._plan, result, self._files.cells, seconds, self._files.report)


def _describe(folder: Path, record: Record) -> dict[str, Any]:
    """Return a record with its folder, and without what only `record.json` has: the trials, and
    what was live at the peak."""
    brief = replace(record, trials=(), allocations=None)
    row = {"folder": str(folder.resolve()), **msgspec.to_builtins(brief)}
    del row["trials"], row["allocations"]
    return row


def _write_json(content: Any) -> str:
    return json.dumps(content, indent=1, allow_nan=False)
