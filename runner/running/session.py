"""One command's work: what it needs is opened, its plan is run, everything is closed in order.

Whatever measures goes through here: `measured` runs a whole plan (claims), and `shown` makes the
views of it as well (a run, a sweep); a search that finds its next trial by its last ones (`fit`)
takes the same server from `opened`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runner import places, tracking
from runner.config import Experiment, Tracking
from runner.errors import Interrupted, Unavailable
from runner.isolation import look, mallocs
from runner.isolation.server import Server
from runner.judging import estimate
from runner.plan import Plan
from runner.running import engine, environment, folders
from runner.running.engine import Observer, Result
from runner.running.interruption import interruptible, uncut
from runner.running.lifecycle import Run
from runner.running.publishing import Publishing
from runner.tracking import Links


class Audience(Observer, Protocol):
    """An observer who is told of the plan first, and dismissed at last."""

    def announce(self, plan: Plan, runs: Sequence[Run]) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Session:
    """What trials need: a warm server, and the machine as it was before them."""

    server: Server
    machine: dict[str, Any]
    publishing: Publishing


@dataclass(frozen=True)
class Done:
    """What came of a plan."""

    result: Result
    publishing: Publishing


@dataclass(frozen=True)
class Views:
    """Where a run or a sweep can be looked at."""

    report: Path | None
    pages: Callable[[], str | Links | None]
    """Of a run its page in the store, of a sweep its links; waits until all is there, and what is
    known without that can be told before. None where there is no such page."""


@contextmanager
def measured(
    plan: Plan, folder: Path, audience: Audience, words: Sequence[str] = ()
) -> Iterator[Done]:
    """Run the plan in its folder; the store stays open for what is shown of the whole."""
    first = plan.cells[0].experiment
    with interruptible():
        if not plan.is_sweep:
            require_devices([first])
        elif not plan.launcher:
            _require_mallocs([cell.experiment for cell in plan.cells])
        with engine.open_plan(plan, folder, words) as runs:
            missing = bool(plan.search) or (any(run.next for run in runs) and not plan.launcher)
            try:
                with opened(folder, first.tracking, load=missing) as session:
                    audience.announce(plan, runs)
                    result = _run(plan, runs, words, folder, session, audience)
                    audience.close()
                    try:
                        yield Done(result, session.publishing)
                        session.publishing.end(is_hurried=result.interrupted is not None)
                    except Interrupted as stop:  # while its end waited for the store
                        session.publishing.end(is_hurried=True)
                        if problem := session.publishing.problem:
                            stop.add_note(str(problem))
                        raise
            finally:
                audience.close()


@contextmanager
def shown(
    plan: Plan, folder: Path, audience: Audience, words: Sequence[str] = ()
) -> Iterator[tuple[Done, Views]]:
    """As `measured`, with the views of the whole: its table and report in the folder at once, its
    report and pictures in the store at last, when what came of it has been told."""
    with measured(plan, folder, audience, words) as done:
        publishing = done.publishing
        if not plan.is_sweep:
            yield done, Views(None, publishing.page)
            return
        from runner import report
        from runner.export import frames  # after the last trial: pandas is large

        frames.write(folder)
        if done.result.interrupted:
            yield done, Views(None, lambda: None)
            return
        yield done, Views(report.write(folder), lambda: publishing.links(engine.sweep_id(folder)))
        publishing.publish_sweep(folder)


def _run(
    plan: Plan,
    runs: Sequence[Run],
    words: Sequence[str],
    folder: Path,
    session: Session,
    audience: Audience,
) -> Result:
    machine, publishing = session.machine, session.publishing
    if plan.launcher:
        from runner.running import launch  # with Hydra, which has composed such a plan already

        return launch.run_all(plan, words, folder, machine, publishing)
    if plan.search:
        from runner.running import searching  # the same

        return searching.run_all(plan, words, folder, session.server, machine, audience, publishing)
    seed = plan.cells[0].experiment.seed
    return engine.run_all(runs, folder, session.server, machine, audience, publishing, seed)


@contextmanager
def opened(folder: Path, choice: Tracking | None = None, *, load: bool = True) -> Iterator[Session]:
    """Server and store, which load while everything else gets ready; both end with this."""
    log = folders.log_file(folder)
    server = Server(log)
    tracker = tracking.open_tracking(choice, places.outputs()) if choice else tracking.NoTracker()
    try:
        if load:
            server.start()
        tracker.prepare(log)
        with uncut():
            estimate.get_ready()  # TensorFlow is loading
        publishing = Publishing(tracker, choice, folder)
        yield Session(server, environment.describe(), publishing)
    finally:
        tracker.close()
        server.stop()


def _require_mallocs(experiments: Sequence[Experiment]) -> None:
    for experiment in experiments:
        mallocs.environment(experiment.device)


def require_devices(experiments: Sequence[Experiment]) -> None:
    """Refuse, before anything is written, what needs a GPU that is not there; of several
    experiments one may, and its record says so. A malloc that is not there is nobody's record."""
    _require_mallocs(experiments)
    missing: list[Unavailable] = []
    for experiment in experiments:
        try:
            look.require_device(experiment)
        except Unavailable as error:
            missing.append(error)
    if len(missing) == len(experiments):
        raise missing[0]
