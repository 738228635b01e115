"""The loop keeps what was finished, whatever stops it, and no listener can stop it."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runner import records
from runner.cell import PLAN_FILE, Plan, TrialSpec
from runner.compose import composition
from runner.engine.dialogues import Dialogue, Dialogues
from runner.engine.events import (
    CellsOpened,
    Event,
    MeasurementEnded,
    MeasurementStarted,
    RecordWritten,
    TrialEnded,
    TrialStarted,
)
from runner.engine.grid import Grid
from runner.engine.measure import measure
from runner.engine.requests import Evidence, Request
from runner.engine.run import Run
from runner.errors import BadInput, Interrupted, ServerError, WriteError
from runner.records import Outcome
from tests.unit.engine.conftest import Recorder, executor_on, run_plan


def planned(*words: str) -> Plan:
    said = ["-m", *words, "tracking=none", "measure.side_by_side=1"]
    return composition.compose_plan(said)


TWO = ("scenario=numpy_loop", "seed=0,1")


class Listening:
    """Notes every event; raises what it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.events: list[Event] = []
        self.is_closed = False
        self._error = error

    def on(self, event: Event) -> None:
        self.events.append(event)
        if self._error:
            raise self._error

    def close(self) -> None:
        self.is_closed = True


def test_listeners_hear_of_everything_in_order_and_are_closed(folder: Path) -> None:
    listener = Listening()
    measure(Grid(planned(*TWO)), folder, executor_on(Recorder()), [listener])
    kinds = [type(event) for event in listener.events]
    assert kinds[:2] == [MeasurementStarted, CellsOpened]
    assert kinds[-1] is MeasurementEnded
    assert kinds.count(TrialStarted) == kinds.count(TrialEnded) == 8
    written = [event for event in listener.events if isinstance(event, RecordWritten)]
    assert [event.is_new for event in written] == [True, True]
    assert listener.is_closed


def test_a_failing_listener_is_one_warning_and_costs_no_record(folder: Path) -> None:
    failing, other = Listening(ValueError("no page")), Listening()
    result = measure(Grid(planned(*TWO)), folder, executor_on(Recorder()), [failing, other])
    assert result.exit_code == 0
    assert result.warnings == ("Listening: no page",)
    assert len(records.find(folder)) == 2
    assert len(other.events) == len(failing.events)


def lose(after: int) -> Recorder:
    """A server that is lost after some trials."""
    server = Recorder()

    def end(_: TrialSpec) -> Outcome | None:
        if len(server.asked) > after:
            raise ServerError("the server ended.", "See the log.")
        return None

    server._ends = end
    return server


def test_a_lost_server_keeps_trials_and_resuming_runs_the_others(folder: Path) -> None:
    result = run_plan(planned(*TWO), folder, lose(after=5))
    assert isinstance(result.stopped, ServerError)
    assert result.exit_code == 1
    second = Recorder()
    assert run_plan(planned(*TWO), folder, second).exit_code == 0
    assert len(second.asked) == 3


def test_a_full_disk_stops_in_order_with_a_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = records.append_trial
    count = iter(range(99))

    def append(*arguments: object) -> None:
        if next(count) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        kept(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(records, "append_trial", append)
    result = run_plan(planned(*TWO), folder, Recorder())
    assert isinstance(result.stopped, WriteError)
    assert "the disk is full" in str(result.stopped)
    monkeypatch.setattr(records, "append_trial", kept)
    second = Recorder()
    assert run_plan(planned(*TWO), folder, second).exit_code == 0
    assert len(second.asked) == 8 - 3


def test_more_trials_of_the_same_cells_continue_what_is_there(folder: Path) -> None:
    run_plan(planned(*TWO, "measure.timing_processes=1"), folder, Recorder())
    before = {each.name: records.read(each).cell for each in records.find(folder)}
    second = Recorder()
    run_plan(planned(*TWO, "measure.timing_processes=3"), folder, second)
    assert [kind for _, kind, _ in second.asked] == ["timing"] * 4
    assert {index for _, _, index in second.asked} == {1, 2}
    found = {each.name: records.read(each) for each in records.find(folder)}
    assert {name: record.cell for name, record in found.items()} == before
    assert {len(record.trials) for record in found.values()} == {4}


def test_an_older_version_s_sweep_is_resumed_by_its_words(folder: Path) -> None:
    """Its plan has cells by another id, and no schema."""
    plan = planned(*TWO)
    run_plan(plan, folder, lose(after=5))
    path = folder / PLAN_FILE
    kept = json.loads(path.read_text())
    del kept["schema"]
    path.write_text(json.dumps({**kept, "cells": ["0123", "4567"]}))
    second = Recorder()
    assert run_plan(plan, folder, second).exit_code == 0
    assert len(second.asked) == 3
    with pytest.raises(BadInput, match="another grid"):
        run_plan(planned("scenario=numpy_loop", "seed=0,2"), folder, Recorder())


class Asking:
    """A source of one dialogue, which asks for a probe first, then for all of it."""

    question = None
    seed = 0
    must_have_device = False

    def __init__(self, plan: Plan) -> None:
        self.seen: list[list[str]] = []
        self._plan = plan
        self._dialogues = Dialogues([self._steps()])
        self.ask, self.tell = self._dialogues.ask, self._dialogues.tell

    def _steps(self) -> Dialogue:
        cell = self._plan.cells[0]
        probe = Request(cell, Evidence(1, 0, 0, False), "probe", is_kept=False)
        (run,) = yield [probe]
        self._note(run)
        whole = Evidence.from_measure(cell.experiment.measure)
        (run,) = yield [replace(probe, evidence=whole, is_kept=True, swept={})]
        self._note(run)

    def _note(self, run: Run) -> None:
        self.seen.append([trial.kind for trial in run.get_record().trials])


def test_asking_for_more_evidence_continues_where_it_was(folder: Path) -> None:
    source, server = Asking(planned(*TWO)), Recorder()
    result = measure(source, folder, executor_on(server))
    assert source.seen == [["memory"], ["memory", "timing", "timing", "timing"]]
    assert len(server.asked) == 4
    assert result.outcomes == (records.COMPLETED,)
    assert (folder / "probe" / "record.json").exists()


class OneByOne:
    """Asks for the next cell when the one before is there."""

    question = None
    seed = 0
    must_have_device = False

    def __init__(self, plan: Plan) -> None:
        self.told: list[str] = []
        self._left = list(Grid(plan).ask())
        self._asked: list[Request] = []

    def ask(self) -> Sequence[Request]:
        if len(self._asked) > len(self.told) or not self._left:
            return []
        self._asked.append(self._left.pop(0))
        return self._asked[-1:]

    def tell(self, run: Run) -> None:
        self.told.append(run.request.place)


def test_a_source_is_told_of_each_run_once(folder: Path) -> None:
    listener, source = Listening(), OneByOne(planned("scenario=numpy_loop", "seed=0,1,2"))
    measure(source, folder, executor_on(Recorder()), [listener])
    assert source.told == ["0", "1", "2"]
    assert sum(isinstance(event, RecordWritten) for event in listener.events) == 3


def test_dialogues_go_on_at_their_own_pace() -> None:
    cell = planned(*TWO).cells[0]

    def steps(name: str, times: int) -> Dialogue:
        for number in range(times):
            yield [Request(cell, Evidence(1, 0, 0), f"{name}{number}")]

    dialogues = Dialogues([steps("a", 2), steps("b", 1)])
    first = dialogues.ask()
    assert [each.place for each in first] == ["a0", "b0"]
    assert dialogues.ask() == []
    run = Run(first[0], Path("/nowhere"), None, "", {})
    dialogues.tell(run)
    assert [each.place for each in dialogues.ask()] == ["a1"]


def test_an_interruption_while_listeners_end_is_the_results(folder: Path) -> None:
    class Stopping(Listening):
        def on(self, event: Event) -> None:
            super().on(event)
            if isinstance(event, MeasurementEnded):
                raise Interrupted(signal.SIGTERM)

    stopping, other = Stopping(), Listening()
    listeners: Sequence[Listening] = [stopping, other]
    result = measure(Grid(planned(*TWO)), folder, executor_on(Recorder()), listeners)
    assert result.exit_code == 143
    assert isinstance(other.events[-1], MeasurementEnded)
    assert {each.outcome.status for each in map(records.read, records.find(folder))} == {
        "completed"
    }
