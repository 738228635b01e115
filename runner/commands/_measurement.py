"""The measurement of every verb that measures: its listeners, and the text at the end."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

from runner.commands._store import warn_of_unused_address
from runner.engine.answers import Answer
from runner.engine.events import Event, Listener, MeasurementEnded, Result
from runner.engine.measure import measure
from runner.engine.requests import Executor
from runner.engine.scheduler import LocalExecutor
from runner.errors import Interrupted
from runner.processes.server import TrialServer
from runner.render.listeners import RecordFilesListener
from runner.render.text.progress import Progress
from runner.store.listener import StoreListener
from runner.versions import describe_untried


@dataclass
class _Printer(Listener):
    """Prints what came of a measurement before the tracking store is waited for."""

    answer: Answer
    started: float
    exit_code: int = 0
    error: Exception | None = field(default=None, init=False)

    def on(self, event: Event) -> None:
        if isinstance(event, MeasurementEnded):
            try:
                self.exit_code = self.answer.finish(event.result)
                text = self.answer.render(event.result, time.monotonic() - self.started)
                if text:
                    print(text, flush=True)
            except Exception as error:
                self.error = error


def measure_and_print(answer: Answer, server: TrialServer, started: float) -> int:
    """Measure what an answer asks for, print it, and return the exit code.

    Listeners are told in this order: what is shown meanwhile; the files of a record; the answer's
    own, such as the table and the page of a sweep; the text, which names them; and at last the
    store, which keeps them all and may take its time.
    """
    executor: Executor = LocalExecutor(server)
    if answer.cluster:
        from runner.engine.cluster.executor import ClusterExecutor  # with Dask

        executor = ClusterExecutor(answer.cluster)
    if answer.candidates:
        executor.check(answer.candidates, answer.source.must_have_device)
    tracking = answer.tracking
    if tracking:
        warn_of_unused_address(tracking)
    printer = _Printer(answer, started)
    store = StoreListener(tracking, answer.folder) if tracking else None
    result = measure(
        answer.source,
        answer.folder,
        executor,
        [
            answer.progress or Progress(),
            RecordFilesListener(tracking is not None and tracking.kind != "none"),
            *answer.listeners,
            printer,
            *([store] if store else []),
        ],
    )
    if printer.error:
        raise printer.error
    if store and store.text and answer.shows_store:
        print(store.text, flush=True)
    _print_warnings(result, executor)
    if result.stopped and answer.resume_command:
        print(f"  Continue with: {answer.resume_command}", file=sys.stderr)
    return result.exit_code if result.stopped else printer.exit_code


def _print_warnings(result: Result, executor: Executor) -> None:
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
