"""The search for a leak: which trials it takes, which remedies, and that it ends on request."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.composing import composition
from runner.errors import Interrupted
from runner.judging.leak import Leak
from runner.leak import cells, search
from runner.leak.search import Search
from runner.plan import Planned
from runner.records import Outcome, Status, Trial
from runner.running import lifecycle, session
from runner.running.engine import Result


def cell(folder: Path, *words: str) -> Planned:
    plan = composition.plan([*words, "tracking=none"], folder / "plan")
    return cells.to_measure(plan.cells[0])


@pytest.mark.parametrize(
    ("phase", "status", "left"),
    [
        ("steps", Status.OUT_OF_MEMORY, ["host"]),
        ("release", Status.TIMED_OUT, ["host"]),
        ("build", Status.OUT_OF_MEMORY, []),
        ("steps", Status.FAILED, []),
    ],
)
def test_a_trial_that_what_grows_may_have_ended_leaves_the_host_trial_to_say_what(
    tmp_path: Path, phase: str, status: Status, left: list[str]
) -> None:
    wanted = cell(tmp_path, "scenario=python_loop", "measure.memory_processes=0")
    run = lifecycle.open_run(wanted, tmp_path / "run")
    ended = Outcome(status, phase, "it is so")
    lifecycle.add_trial(run, Trial("timing", 0, ended))
    assert [each.kind for each in run.assignments[run.done :]] == left
    assert run.outcome == ended
    again = lifecycle.open_run(wanted, tmp_path / "run")
    assert (again.next is not None) == bool(left)
    if again.next:
        lifecycle.add_trial(again, Trial("host", 0, Outcome(Status.FAILED, "steps", "no")))
        assert (again.next, again.outcome) == (None, ended)


def test_jit_compile_is_tried_off_where_the_scenario_has_it_on(tmp_path: Path) -> None:
    grows = Leak("grows", "grows", None, 5000.0, None, 5000.0)
    tried = cells.attempts(cell(tmp_path, "scenario=model_per_step_xla"), grows)
    assert ("scenario.jit_compile=false",) in [each.words for each in tried]


def test_a_remedy_that_is_in_force_already_is_not_tried(tmp_path: Path) -> None:
    grows = Leak("grows", "grows", None, 5000.0, None, 5000.0)
    plain = [each.words for each in cells.attempts(cell(tmp_path, "scenario=retracing"), grows)]
    collected = cell(tmp_path, "scenario=retracing", "measure.between_steps=gc_collect")
    tried = [each.words for each in cells.attempts(collected, grows)]
    assert plain == [("measure.between_steps=gc_collect",), *tried]


@pytest.mark.parametrize(
    "words",
    [
        [
            "scenario=python_loop",
            "execution=eager",
            "measure.between_steps=nothing",
            "batch_size=3",
        ],
        ["-m", "scenario=python_loop", "execution=eager,graph", "batch_size=3"],
        ["experiment=reported", "scenario=model_per_step_xla"],
    ],
)
def test_the_command_of_a_remedy_is_taken_as_it_is_printed(
    tmp_path: Path, words: list[str]
) -> None:
    first = composition.plan(words, tmp_path / "plan").cells[0]
    grows = Leak("grows", "grows", None, 5000.0, None, 5000.0)
    for attempt in cells.attempts(first, grows):
        printed = shlex.split(search.command(first, attempt))
        assert printed[:4] == ["python", "-m", "runner", "leak"]
        (repeated,) = composition.plan(printed[4:], tmp_path / "again").cells
        wanted = cells.tried(first, 0, attempt, grows)
        assert set(attempt.words) <= {word.lower() for word in repeated.overrides}
        assert repeated.experiment.batch_size == wanted.experiment.batch_size
        assert repeated.experiment.execution == wanted.experiment.execution


def test_an_interrupted_run_ends_the_search_and_no_remedy_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def run_all(runs: list[object], folder: Path, *_: object) -> Result:
        measured.append(runs)
        return Result(folder, (), Interrupted(signal.SIGINT))

    idle = SimpleNamespace(start=lambda: None, stop=lambda: None)
    monkeypatch.setattr(session, "Server", lambda _: idle)
    monkeypatch.setattr(search.engine, "run_all", run_all)
    plan = composition.plan(["-m", "scenario=python_loop", "batch_size=1,2"], tmp_path / "plan")
    with pytest.raises(Interrupted):
        Search(plan, tmp_path).run()
    assert len(measured) == 1
