"""Cells as tasks of Dask: what comes back is kept, what is lost is a failed row, and why."""

from __future__ import annotations

import io
import os
import pickle
import signal
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from runner import records, schema
from runner.cell import ClusterSpec, Plan
from runner.compose import composition
from runner.engine import environment
from runner.engine.cluster import clusters, worker
from runner.engine.cluster.clusters import Connection
from runner.engine.cluster.executor import ClusterExecutor
from runner.engine.cluster.worker import WarmServer
from runner.engine.events import Event, RecordWritten, Result, TrialEnded, TrialTaken
from runner.engine.grid import Grid
from runner.engine.measure import measure
from runner.engine.run import Run
from runner.engine.scheduler import LocalExecutor
from runner.errors import CodeChanged, Interrupted, ServerError, Unavailable
from runner.facts import TrialFacts
from runner.machine import Machine
from runner.records import TRIALS_FILE, Status, Trial
from runner.render.text.progress import Progress
from tests.runs import MACHINE
from tests.unit.engine.conftest import Recorder

NODE = msgspec.structs.replace(MACHINE, host="node7")
LOST = "on 2 different workers, but all those workers died. Inspecting worker logs is"


def plan_of(cells: int, *words: str) -> Plan:
    said = ("-m", "scenario=numpy_loop", f"seed=range({cells})", *words, "tracking=none")
    return composition.compose_plan(said)


@dataclass
class Task:
    """A future of Dask's."""

    outcome: Any
    status: str = "finished"

    def result(self) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        call(self)


@dataclass
class OneWorker:
    """In place of Dask: each task is run at once by a worker in this process."""

    scratch: Path
    ends: Callable[[int], Exception | None] = lambda _: None
    """By the cell's seed, what its task raises."""
    submitted: list[int] = field(default_factory=list)
    plugins: dict[str, WarmServer] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    cancelled: int = 0
    local_directory: str = field(init=False)
    scheduler: Any = field(default_factory=lambda: type("", (), {"address": "tls://here:1"}))
    dashboard_link: None = None

    def __post_init__(self) -> None:
        self.local_directory = str(self.scratch)

    def register_plugin(self, plugin: WarmServer, name: str) -> None:
        self.plugins[name] = pickle.loads(pickle.dumps(plugin))
        self.plugins[name].setup(self)
        here = LocalExecutor(Recorder())  # type: ignore[arg-type]
        here.machine = NODE
        self.plugins[name]._executor = here

    def unregister_worker_plugin(self, name: str) -> None:
        self.plugins[name].teardown(self)
        self.ended.append(name)

    def subscribe_topic(self, topic: str, handler: Callable[[Any], None]) -> None:
        self._handler = handler

    def log_event(self, topic: str, message: Any) -> None:
        self._handler((0.0, message))

    def get_current_task(self) -> str:
        return "key"

    def submit(self, _: Any, name: str, number: int, work: bytes, **options: Any) -> Task:
        assert options == {"pure": False, "retries": 1}
        seed = pickle.loads(work)[0].cell.experiment.seed
        self.submitted.append(seed)
        raised = self.ends(seed)
        if raised:
            return Task(raised, "cancelled" if isinstance(raised, CancelledError) else "error")
        try:
            return Task(self.plugins[name].measure(number, work))
        except Unavailable as error:
            return Task(error, "error")

    def scheduler_info(self, n_workers: int) -> dict[str, int]:
        assert n_workers == 0, "of a thousand workers not more is read than is needed"
        return {"n_workers": 1}

    def cancel(self, tasks: list[Any]) -> None:
        self.cancelled = len(tasks)

    def close(self, timeout: float) -> None:
        """There is nothing to close."""


@dataclass
class Listening:
    heard: Callable[[Event], None] = lambda _: None
    events: list[Event] = field(default_factory=list)

    def on(self, event: Event) -> None:
        self.events.append(event)
        self.heard(event)

    def close(self) -> None:
        """There is nothing to let go of."""


Sweep = Callable[..., tuple[Result, OneWorker]]


@pytest.fixture
def sweep(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.chdir(tmp_path)

    def run(plan: Plan, *listeners: Any, workers: int = 2, **ends: Any) -> Any:
        client = OneWorker(tmp_path, **ends)
        monkeypatch.setattr(worker, "get_worker", lambda: client)
        own = ClusterExecutor(
            ClusterSpec("dask", workers, "tls://here:1"), _connection=Connection(client)
        )
        return measure(Grid(plan), folder, own, listeners), client

    return run


def statuses(result: Result) -> list[Status]:
    return [outcome.status for outcome in result.outcomes]


def test_workers_measure_all_and_listeners_hear_of_it(sweep: Sweep, folder: Path) -> None:
    listener = Listening()
    result, client = sweep(plan_of(4), listener)
    assert result.exit_code == 0
    written = [event for event in listener.events if isinstance(event, RecordWritten)]
    assert sorted(event.run.request.place for event in written) == ["0", "1", "2", "3"]
    assert all(event.is_new for event in written)
    assert sum(isinstance(event, TrialEnded) for event in listener.events) == 16
    taken = [event.trial for event in listener.events if isinstance(event, TrialTaken)]
    assert {(trial.kind, trial.index) for trial in taken} >= {("memory", 0), ("timing", 1)}
    assert len(client.ended) == 1, "the workers are not ours: what was put there is taken away"
    for number in range(4):
        record = records.read(folder / str(number))
        assert record.environment.host == "node7"
        assert record.sweep is not None
        assert record.sweep.id == "2026-01-31-12-00-00-abcd"


def test_a_lost_cell_is_a_failed_row_in_dasks_words_until_it_is_resumed(
    sweep: Sweep, folder: Path
) -> None:
    stream = io.StringIO()
    progress = Progress(stream=stream)
    result, _ = sweep(plan_of(5), progress, ends=lambda seed: OSError(LOST) if seed == 1 else None)
    assert result.exit_code == 1
    assert statuses(result) == ["completed", "killed", *["completed"] * 3]
    reason = records.read(folder / "1").outcome.reason
    assert reason is not None
    assert reason.endswith("on 2 different workers, but all those workers died.")
    assert (progress._cells_done, progress._cells, progress._failed) == (5, 5, 1)
    assert sum(progress._forecast.left.values()) == 0
    result, client = sweep(plan_of(5))
    assert statuses(result) == ["completed"] * 5
    assert client.submitted == [1]


def test_code_that_is_edited_between_two_workers_ends_the_sweep(
    sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = iter("12")

    def take(run: Run, machine: Machine, files: dict[str, bytes]) -> list[Trial]:
        code = TrialFacts(code={"train.py": next(texts)})
        lines = files[TRIALS_FILE].splitlines()
        trials = [replace(schema.decode(Trial, line), facts=code) for line in lines]
        made = b"\n".join(map(schema.encode, trials)) + b"\n"
        return real(run, machine, {**files, TRIALS_FILE: made})

    real = Run.take
    monkeypatch.setattr(Run, "take", take)
    result, _ = sweep(plan_of(3), workers=1)
    assert isinstance(result.stopped, CodeChanged)
    assert "train.py changed while it was measured" in str(result.stopped)
    kept = [len(list(records.read_trials(folder / cell))) for cell in "01"]
    assert kept[0] > 0 == kept[1]


@pytest.mark.parametrize("first", [0, 3])
def test_what_a_worker_cannot_do_stops_the_sweep(first: int, sweep: Sweep) -> None:
    problem = ServerError("the server that loads TensorFlow ended.", "Look at its log.")
    result, client = sweep(plan_of(9), ends=lambda seed: problem if seed >= first else None)
    assert isinstance(result.stopped, ServerError)
    assert "the server that loads TensorFlow ended" in str(result.stopped)
    assert len(client.submitted) < first + 4, "it would fail all that are left"
    assert sweep(plan_of(9))[0].exit_code == 0


def test_a_worker_with_another_version_is_refused(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    software = environment.read_software()
    other = software | {"Keras": "1.2.3"}
    read = Mock(side_effect=chain([software], repeat(other)))
    monkeypatch.setattr(environment, "read_software", read)
    result, _ = sweep(plan_of(4))
    assert isinstance(result.stopped, ServerError)
    assert f"has Keras 1.2.3, and the command has {software['Keras']}" in str(result.stopped)


def test_a_worker_without_the_runner_is_refused(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = ModuleNotFoundError("No module named 'runner'")
    monkeypatch.setattr(OneWorker, "register_plugin", Mock(side_effect=problem))
    result, _ = sweep(plan_of(4))
    assert isinstance(result.stopped, ServerError)
    assert "a worker can't measure: No module named 'runner'" in str(result.stopped)


def test_a_scheduler_that_is_gone_stops_the_sweep_and_says_how_to_go_on(sweep: Sweep) -> None:
    result, _ = sweep(plan_of(4), ends=lambda seed: CancelledError("lost") if seed == 2 else None)
    assert isinstance(result.stopped, ServerError)
    assert "resume=latest" in result.stopped.remedy
    assert statuses(result)[:2] == ["completed"] * 2


def test_after_an_interruption_what_came_back_is_kept(sweep: Sweep) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, RecordWritten):
            raise Interrupted(signal.SIGINT)

    result, client = sweep(plan_of(4), Listening(stop))
    assert result.exit_code == 130
    assert statuses(result) == ["completed", *["interrupted"] * 3]
    assert client.cancelled == 2, "no more are handed out than there are workers"
    result, client = sweep(plan_of(4))
    assert result.exit_code == 0
    assert sorted(client.submitted) == [1, 2, 3]


def test_more_evidence_goes_on_with_the_trials_that_are_there(sweep: Sweep, folder: Path) -> None:
    sweep(plan_of(1, "measure.timing_processes=0"))
    lines = (folder / "0" / "trials.jsonl").read_bytes()
    (folder / "plan.json").unlink()
    sweep(plan_of(1))
    assert (folder / "0" / "trials.jsonl").read_bytes().startswith(lines)
    assert len(records.read(folder / "0").trials) == 4


def test_the_slowest_cells_are_handed_out_first(sweep: Sweep) -> None:
    words = ("-m", "scenario=numpy_loop", "measure=quick,rigorous", "seed=0,1", "tracking=none")
    plan = composition.compose_plan(words)
    listener = Listening()
    sweep(plan, listener, workers=1)
    taken = [event.run.request.place for event in listener.events if isinstance(event, TrialTaken)]
    assert list(dict.fromkeys(taken)) == ["2", "3", "0", "1"]


def make_connection(workers: list[int], **cluster: Any) -> Connection:
    """Return a connection whose scheduler has one of these numbers of workers at each look."""
    client = Mock(scheduler=Mock(address="tls://here:1"))
    client.scheduler_info.side_effect = [{"n_workers": count} for count in workers]
    own = Mock(**cluster) if cluster else None
    return Connection(client, own)


def test_lost_workers_are_started_again_and_none_too_many() -> None:
    connection = make_connection([0, 3, 2], worker_spec={})
    cluster = connection.cluster
    cluster.new_worker_spec = lambda: {len(cluster.worker_spec): {}}
    for _ in range(2):
        connection.keep_workers(3)
        connection._checked -= 1.0
    assert len(cluster.worker_spec) == 3
    assert cluster.sync.call_count == 2
    cluster.sync.side_effect = RuntimeError("stderr:\nsbatch: error: invalid partition\n")
    with pytest.raises(ServerError, match="sbatch: error: invalid partition"):
        connection.keep_workers(3)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Mock:
    clock = Mock(return_value=1000.0)
    monkeypatch.setattr(clusters.time, "time", clock)
    return clock


@pytest.mark.parametrize("look", [{"n_workers": 0}, OSError("the scheduler is gone")])
def test_an_address_without_a_worker_is_waited_for_a_minute(
    look: dict[str, int] | OSError, clock: Mock
) -> None:
    connection = make_connection([])
    connection.client.scheduler_info.side_effect = [look, {"n_workers": 1}, look, look]
    for seconds in (50, 50, 50):
        clock.return_value += seconds
        connection.keep_workers(2)
    clock.return_value += 11.0
    with pytest.raises(ServerError, match="no worker has come for 60 s") as raised:
        connection.keep_workers(2)
    assert "dask worker tls://here:1" in raised.value.remedy


def test_a_job_that_waits_in_the_queue_is_waited_for(clock: Mock, tmp_path: Path) -> None:
    connection = make_connection([1, 0, 0, 0, 0], worker_spec={0: {}, 1: {}})
    connection.folder = tmp_path
    ended, begun = tmp_path / "slurm-1.out", tmp_path / "slurm-2.out"
    ended.write_text("CANCELLED\n")
    os.utime(ended, (1000, 1000))
    connection.keep_workers(2)
    clock.return_value += 3600.0
    connection.keep_workers(2)
    (tmp_path / "worker-3.log").write_text("HTCondor: submitted\n")
    (tmp_path / "worker-3.out").touch()
    os.utime(tmp_path / "worker-3.log", (1000, 1000))
    connection.keep_workers(2)
    clock.return_value += 3600.0
    begun.write_text("loading\nno such module\n")
    os.utime(begun, (clock.return_value, clock.return_value))
    clock.return_value += 50.0
    connection.keep_workers(2)
    clock.return_value += 20.0
    with pytest.raises(ServerError, match="it said last: no such module"):
        connection.keep_workers(2)
