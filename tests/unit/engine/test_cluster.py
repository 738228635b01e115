"""Workers take the cells; what one of them loses is handed out once more, and nothing waits."""

from __future__ import annotations

import io
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from runner import records
from runner.cell import ClusterSpec, Plan, TrialSpec
from runner.compose import composition
from runner.engine import environment
from runner.engine.cluster import executor, worker
from runner.engine.cluster.cell_queue import CellQueue, Journal, Message
from runner.engine.cluster.executor import ClusterExecutor
from runner.engine.cluster.worker import Pulse, SharedCells
from runner.engine.events import CellTaken, Event, Listener, RecordWritten, Result, TrialEnded
from runner.engine.grid import Grid
from runner.engine.measure import measure
from runner.engine.scheduler import LocalExecutor
from runner.errors import Interrupted, ServerError
from runner.records import Outcome, Status
from runner.render.text.progress import Progress
from tests.runs import MACHINE
from tests.unit.engine.conftest import Recorder

NODE = msgspec.structs.replace(MACHINE, host="node7")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_POLL_SECONDS", 0.0)


def plan_of(cells: int, *words: str) -> Plan:
    said = ("-m", "scenario=numpy_loop", f"seed=range({cells})", *words, "tracking=none")
    return composition.compose_plan(said)


class Killed(BaseException):
    """The worker's process is no more."""


class Stopped(BaseException):
    """The worker's process is there, and does nothing."""


Life = Callable[[CellQueue, str], None]


def live(queue: CellQueue, name: str, dies_at: Sequence[int] = ()) -> None:
    """Be a worker until nothing is left, or until a trial of such a seed."""

    def end(spec: TrialSpec) -> Outcome | None:
        if spec.experiment.seed in dies_at:
            raise Killed
        return None

    work, journal = queue.read_work(), Journal(queue.find_worker_folder(name))
    journal.write(Message("started"))
    source = SharedCells(work, queue, name, journal, Mock())
    here = LocalExecutor(Recorder(end), work.launcher, takes_turns=False)  # type: ignore[arg-type]
    here.machine = NODE
    measure(source, work.folder, here, [source], is_part=True)
    journal.write(Message("ended"))


def dies_at(*seeds: int) -> Life:
    return lambda queue, name: live(queue, name, seeds)


def dies_at_once(queue: CellQueue, name: str) -> None:
    raise Killed


def falls_silent(queue: CellQueue, name: str) -> None:
    number = next(queue.take(name))
    Journal(queue.find_worker_folder(name)).write(Message("took", number))
    raise Stopped


@dataclass
class Workers:
    """In place of a cluster: each worker lives its life at once, in this process."""

    lives: Sequence[Life] = ()
    """Of the first ones; those after them go on until nothing is left."""
    started: list[str] = field(default_factory=list)
    killed: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    ended: list[str] = field(default_factory=list)

    def start(self, queue: CellQueue, count: int) -> Sequence[str]:
        names = [str(len(self.started) + each) for each in range(count)]
        self.started += names
        for name in names:
            life = self.lives[int(name)] if int(name) < len(self.lives) else live
            try:
                life(queue, name)
                self.finished.add(name)
            except Killed:
                self.killed.add(name)
            except Stopped:
                pass
        return names

    def find_ended(self, names: Sequence[str]) -> Mapping[str, str]:
        return {
            name: f"job {name} is gone" for name in names if name in self.killed | self.finished
        }

    def find_log(self, queue: CellQueue, name: str) -> Path:
        return queue.find_worker_folder(name) / "run.log"

    def end(self, name: str) -> None:
        self.ended.append(name)

    def close(self, names: Sequence[str]) -> None:
        """All have ended."""

    def abandon(self) -> str | None:
        return "2 workers go on."


class Listening:
    def __init__(self, heard: Callable[[Event], None] = lambda _: None) -> None:
        self.events: list[Event] = []
        self._heard = heard

    def on(self, event: Event) -> None:
        self.events.append(event)
        self._heard(event)

    def close(self) -> None:
        """There is nothing to let go of."""


def sweep(
    plan: Plan, folder: Path, *lives: Life, workers: int = 2, listener: Listener | None = None
) -> tuple[Result, Workers]:
    cluster = Workers(lives)
    own = ClusterExecutor(ClusterSpec("ray", workers, {}), _cluster=cluster)
    return measure(Grid(plan), folder, own, [listener] if listener else []), cluster


def statuses(result: Result) -> list[Status]:
    return [outcome.status for outcome in result.outcomes]


def test_workers_measure_all_and_listeners_hear_of_it(folder: Path) -> None:
    listener = Listening()
    result, cluster = sweep(plan_of(4), folder, listener=listener)
    assert result.exit_code == 0
    assert len(cluster.started) == 2
    written = [each for each in listener.events if isinstance(each, RecordWritten)]
    assert sorted(each.run.request.place for each in written) == ["0", "1", "2", "3"]
    assert all(each.is_new for each in written)
    assert sum(isinstance(each, CellTaken) for each in listener.events) == 4
    assert sum(isinstance(each, TrialEnded) for each in listener.events) == 16


def test_a_record_names_its_node_and_who_started_it(folder: Path) -> None:
    sweep(plan_of(2), folder)
    for number in range(2):
        record = records.read(folder / str(number))
        assert record.environment.host == "node7"
        assert record.sweep is not None
        assert (record.sweep.launcher, record.sweep.in_rounds) == ("ray", False)
        assert record.sweep.id == "2026-01-31-12-00-00-abcd"


def test_a_lost_cell_is_handed_out_once_more(folder: Path) -> None:
    result, cluster = sweep(plan_of(4), folder, dies_at(2), live)
    assert result.exit_code == 0
    assert cluster.killed == {"0"}
    assert sorted(each.kind for each in records.read(folder / "2").trials) == [
        *("memory", "timing", "timing", "timing"),
    ]


def test_a_cell_lost_twice_is_failed_and_others_go_on(folder: Path) -> None:
    result, cluster = sweep(plan_of(5), folder, dies_at(1), dies_at(3), dies_at(1))
    assert result.exit_code == 1
    assert statuses(result) == ["completed", "killed", *["completed"] * 3]
    record = records.read(folder / "1")
    assert record.outcome.reason is not None
    assert record.outcome.reason.startswith("2 workers were lost while they measured it")
    assert "job 2 is gone" in record.outcome.reason
    assert record.outcome.reason.endswith(".workers/0/workers/2/run.log")
    assert record.environment.host == "node7"
    assert len(cluster.started) == 4, "a lost one is replaced while cells are left"
    result, _ = sweep(plan_of(5), folder)
    assert statuses(result) == ["completed"] * 5


def test_what_a_lost_worker_had_finished_is_not_run_again(folder: Path) -> None:
    plan = plan_of(1, "measure.timing_processes=0")

    def dies_after_its_trial(queue: CellQueue, name: str) -> None:
        work = queue.read_work()
        number = next(queue.take(name))
        Journal(queue.find_worker_folder(name)).write(Message("took", number))
        cell = work.folder / "0"
        environment.keep_node(cell, NODE)
        trial = Recorder().run(TrialSpec(plan.cells[0].experiment, "memory", 0), 1.0)
        records.append_trial(trial, cell, plan.cells[0].experiment.cell)
        raise Killed

    result, cluster = sweep(plan, folder, dies_after_its_trial)
    assert result.exit_code == 0
    assert len(cluster.started) == 1
    assert records.read(folder / "0").environment.host == "node7"


def test_workers_that_take_nothing_stop_the_sweep(folder: Path) -> None:
    result, cluster = sweep(plan_of(4), folder, *[dies_at_once] * 9)
    assert isinstance(result.stopped, ServerError)
    assert "no worker has taken a cell; of the last one: job 1 is gone" in str(result.stopped)
    assert len(cluster.started) == 2
    result, _ = sweep(plan_of(4), folder)
    assert result.exit_code == 0


def test_a_silent_worker_is_ended_and_its_cell_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "SILENT_SECONDS", 0.2)
    result, cluster = sweep(plan_of(3), folder, falls_silent)
    assert result.exit_code == 0
    assert cluster.ended == ["0"]


def test_a_worker_that_makes_no_progress_falls_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worker.SILENT_SECONDS < 300, "nobody waits longer for one that was stopped"
    monkeypatch.setattr(worker, "PULSE_SECONDS", 0.01)
    journal = Journal(tmp_path)
    with closing(Pulse(journal)) as pulse:
        pulse.expect_progress(60.0)
        deadline = time.monotonic() + 60
        while not journal.read():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        pulse.expect_progress(0.0)
        time.sleep(0.1)
        journal.read()
        time.sleep(0.1)
        assert journal.read() == []


def test_progress_counts_a_cell_that_was_given_up(folder: Path) -> None:
    progress = Progress(stream=io.StringIO())
    sweep(plan_of(5), folder, dies_at(1), dies_at(3), dies_at(1), listener=progress)
    assert (progress._cells_done, progress._cells, progress._failed) == (5, 5, 1)
    assert sum(progress._forecast.left.values()) == 0


def test_a_worker_too_many_is_not_started(folder: Path) -> None:
    _, cluster = sweep(plan_of(2), folder, workers=8)
    assert len(cluster.started) == 2


def test_after_an_interruption_what_is_finished_is_kept(folder: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, RecordWritten):
            raise Interrupted(signal.SIGINT)

    result, _ = sweep(plan_of(4), folder, dies_at(2), workers=1, listener=Listening(stop))
    assert result.exit_code == 130
    assert result.still_running == "2 workers go on."
    assert statuses(result) == ["completed", "completed", "interrupted", "interrupted"]
    result, cluster = sweep(plan_of(4), folder)
    assert result.exit_code == 0
    assert len(cluster.started) == 2


def test_the_slowest_cells_are_handed_out_first(folder: Path) -> None:
    handed: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, CellTaken):
            handed.append(event.run.request.place)

    said = ("-m", "scenario=numpy_loop", "measure=quick,rigorous", "seed=0,1", "tracking=none")
    plan = composition.compose_plan(said)
    sweep(plan, folder, workers=1, listener=Listening(note))
    assert handed == ["2", "3", "0", "1"]
