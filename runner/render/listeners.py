"""Listeners that write files: the views of a record, the table and the report of a sweep."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner import paths
from runner.engine import events
from runner.errors import ViewError
from runner.records import LOG_FILE, RECORD_FILE, Cells
from runner.render import html
from runner.render.files import allocations, table


def _write_all(*writes: Callable[[], Any]) -> None:
    """Go on with the next file where one can't be written; raise `ViewError` for them in the
    end."""
    problems = []
    for write in writes:
        try:
            write()
        except OSError as error:
            where = paths.shorten(Path(error.filename)) if error.filename else "a file"
            problems.append(f"{where} can't be written ({error.strerror or error})")
    if problems:
        raise ViewError(
            f"{'; '.join(problems)}.",
            "The records are kept: move away what stands in the way and repeat the command.",
        )


def has_records(folder: Path) -> bool:
    """Return whether a run, or any cell of a sweep, has come to a record."""
    return (folder / RECORD_FILE).exists() or any(folder.glob(f"*/{RECORD_FILE}"))


@dataclass
class RecordFilesListener(events.Listener):
    """Writes the files for other tools beside each new record, and its page if that is wanted."""

    has_page: bool = False
    """Write its page, too, as for a tracking store."""

    def on(self, event: events.Event) -> None:
        if isinstance(event, events.RecordWritten) and event.is_new:
            record, folder = event.run.get_record(), event.run.folder
            pages = [lambda: html.write_run_page(record, folder)] if self.has_page else []
            _write_all(lambda: allocations.write_files(record, folder), *pages)


@dataclass
class LogEcho(events.Listener):
    """Passes on what the first trial of a run prints: all others print it again."""

    has_ended: bool = False
    is_done: bool = False

    def on(self, event: events.Event) -> None:
        if isinstance(event, events.TrialEnded):
            self.has_ended = True
        elif isinstance(event, events.TrialStarted | events.RecordWritten) and self.has_ended:
            if not self.is_done:  # by now its last words are in the log
                text = (event.run.folder / LOG_FILE).read_text(errors="replace")
                print(text, end="", file=sys.stderr, flush=True)
            self.is_done = True


@dataclass
class SweepFilesListener(events.Listener):
    """Reads the cells of a sweep when it has ended, and writes its table and its report."""

    cells: Cells = field(default_factory=lambda: ([], []), init=False)
    """Those that could be read, by folder, and what is wrong with the others."""
    report: Path | None = field(default=None, init=False)
    """The path of the report, once it is written."""

    def on(self, event: events.Event) -> None:
        if not isinstance(event, events.MeasurementEnded) or not has_records(event.folder):
            return
        self.cells = html.read_cells(event.folder)
        frame = table.make_frame(self.cells).drop(columns="sweep")
        _write_all(
            lambda: table.write_csv(frame, event.folder),
            lambda: table.write_parquet(frame, event.folder),
            *([] if event.result.stopped else [lambda: self._write_page(event.folder)]),
        )

    def _write_page(self, folder: Path) -> None:
        self.report = html.write_sweep_page(self.cells, folder)
