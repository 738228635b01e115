"""The loop: a source asks for cells, an executor runs their trials, listeners receive events.

    words -> compose -> source -> measure() -> executor -> trial (child) -> record -> listeners

Every verb that measures goes through here: a run, a sweep, a search, a fit, a leak hunt, claims;
and so does `runner.measure`. (The pytest plugin and the Keras callback measure within the user's
own process, with the meters alone.) What is finished is on the disk at once, so that `resume` opens
the same folders again and runs only what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from runner.engine import folders
from runner.engine.events import (
    CellsOpened,
    Listener,
    MeasurementEnded,
    MeasurementStarted,
    Notifier,
    RecordWritten,
    Result,
)
from runner.engine.open_runs import OpenRuns
from runner.engine.requests import Executor, Source
from runner.engine.run import Run
from runner.errors import CodeChanged, Interrupted, ServerError, translate_write_error
from runner.signals import defer_signals, stop_on_signals


def measure(
    source: Source,
    folder: Path,
    executor: Executor,
    listeners: Sequence[Listener] = (),
) -> Result:
    """Measure every cell that the source asks for, and return how each ended.

    Raises `BadInput` or `Unavailable` before anything is written. Whatever stops it later is in
    the result: what was finished is kept.
    """
    with stop_on_signals(), closing(Notifier(listeners)) as notify:
        requests = source.ask()
        executor.check([request.cell.experiment for request in requests], source.must_have_device)
        with folders.lock_for_measuring(folder, source.question):
            runs, stopped = OpenRuns(folder, executor), None
            try:
                notify(MeasurementStarted(folder))
                while requests or runs.pending:
                    notify(CellsOpened(runs.open(requests)))
                    for run in runs.finished:
                        _close_run(run, source, notify, is_new=not run.is_closed)
                        runs.forget(run)
                    if runs.pending:
                        executor.prepare(folder, source.seed)
                        for run in executor.run_round(runs.pending, notify):
                            if run.next is None:
                                _close_run(run, source, notify)
                                runs.forget(run)
                    requests = source.ask()
            except (Interrupted, ServerError, CodeChanged, OSError) as error:
                stopped = translate_write_error(error) if isinstance(error, OSError) else error
                runs.abandon(stopped)
            result = Result(folder, runs.outcomes, stopped)
            try:
                notify(MeasurementEnded(folder, result))
            except Interrupted as error:  # while a listener waited, most likely for the store
                result = replace(result, stopped=stopped or error)
    return replace(result, warnings=tuple(notify.warnings))


def _close_run(run: Run, source: Source, notify: Notifier, is_new: bool = True) -> None:
    """Write the record, unless it is there or none is wanted; notify listeners and source."""
    if run.request.is_kept:
        if not run.is_closed:
            with defer_signals():
                run.close()
        notify(RecordWritten(run, is_new))
    source.tell(run)
