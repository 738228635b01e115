"""The measurement of every verb that measures: its listeners, and the text at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runner.commands._store import warn_of_unused_address
from runner.config import Tracking
from runner.engine.events import Event, Listener, MeasurementEnded, Result
from runner.engine.measure import measure
from runner.engine.requests import Executor, Source
from runner.errors import Interrupted
from runner.render.listeners import RecordFilesListener, SweepFilesListener
from runner.render.text.progress import Progress
from runner.store.listener import StoreListener
from runner.versions import describe_untried


@dataclass
class _Printer(Listener):
    """Prints what came of a measurement before the tracking store is waited for."""

    render: Callable[[Result], str]
    error: Exception | None = None

    def on(self, event: Event) -> None:
        if isinstance(event, MeasurementEnded):
            try:
                text = self.render(event.result)
                if text:
                    print(text, flush=True)
            except Exception as error:
                self.error = error


def measure_and_print(
    source: Source,
    folder: Path,
    executor: Executor,
    render: Callable[[Result], str],
    *,
    progress: Listener | None = None,
    tracking: Tracking | None = None,
    files: SweepFilesListener | None = None,
    echo: Listener | None = None,
    shows_store: bool = False,
) -> Result:
    """Measure what the source asks for, and print what `render` makes of it. `files` are those that
    a sweep leaves; `echo` passes on what trials print. `shows_store` prints the pages in the
    tracking store after it: not where what is printed may be JSON."""
    if tracking:
        warn_of_unused_address(tracking)
    printer = _Printer(render)
    store = StoreListener(tracking, folder) if tracking else None
    is_tracked = tracking is not None and tracking.kind != "none"
    listeners: list[Listener] = [progress or Progress(), RecordFilesListener(is_tracked)]
    listeners += [each for each in (echo, files, printer, store) if each]
    result = measure(source, folder, executor, listeners)
    if printer.error:
        raise printer.error
    if store and store.text and shows_store:
        print(store.text, flush=True)
    versions = executor.machine.versions
    version = versions.get("tensorflow") or versions.get("tensorflow-cpu")
    if version and (untried := describe_untried("tensorflow", version)):
        lost = "tensor figures that its trace does not confirm are left out"
        print(f"runner: {untried}: {lost}.", file=sys.stderr)
    for problem in result.warnings:
        print(f"runner: {problem}", file=sys.stderr)
    if result.stopped:
        kept = "; what was finished is kept." if isinstance(result.stopped, Interrupted) else ""
        print(f"runner: {result.stopped}{kept}", file=sys.stderr)
    return result
