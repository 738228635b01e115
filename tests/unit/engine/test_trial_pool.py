"""Memory trials run side by side where nothing can come of it, and their figures are the same."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from runner import records
from runner.cell import Plan, TrialSpec
from runner.compose import composition
from runner.engine import scheduler
from runner.engine.grid import Grid
from runner.engine.open_runs import OpenRuns
from runner.errors import BadInput, Interrupted
from runner.records import Outcome, Status, Trial
from tests.factories import memory_trial, timing_trial
from tests.unit.engine.conftest import executor_on, run_plan


class Counting:
    """In place of the server: counts who is at work beside whom. A memory trial waits for `beside`
    others before it ends, if they come."""

    def __init__(
        self, beside: int = 1, ends: Callable[[TrialSpec, int], Status | None] = lambda *_: None
    ) -> None:
        self.log = Path("/dev/null")
        self.most: dict[str, int] = {"memory": 0, "timing": 0}
        self.asked: list[TrialSpec] = []
        self.was_cut = threading.Event()
        self._at_work: list[TrialSpec] = []
        self._beside = beside
        self._ends = ends
        self._changed = threading.Condition()

    def run(self, spec: TrialSpec, *_: object, **__: object) -> Trial:
        kind = spec.kind
        with self._changed:
            first = kind == "memory" and spec not in self.asked
            patience = 0.01 if self._beside == 1 else 2.0 if first else 0.1
            self.asked.append(spec)
            self._at_work.append(spec)
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._at_work) >= self._beside, patience)
            most = len(self._at_work)
        time.sleep(0.01)
        with self._changed:
            self.most[kind] = max(self.most[kind], most)
            self._at_work.remove(spec)
        if status := self._ends(spec, most):
            return Trial(kind, spec.index, Outcome(status, "steps", "because"))
        return (memory_trial if kind == "memory" else timing_trial)(index=spec.index)

    def start(self, environment: object = None) -> None:
        """There is nothing to load."""

    def terminate(self) -> None:
        self.was_cut.set()


def planned(*words: str) -> Plan:
    return composition.compose_plan(["-m", *words, "tracking=none"])


EAGER = ("scenario=large_tensor", "seed=range(4)", "measure.timing_processes=1")


def test_memory_trials_run_side_by_side_timing_trials_alone(folder: Path) -> None:
    server = Counting(beside=2)
    run_plan(planned(*EAGER, "measure.side_by_side=2"), folder, server)
    assert server.most == {"memory": 2, "timing": 1}
    assert len(server.asked) == 8


def test_one_by_one_if_the_user_says_so(folder: Path) -> None:
    server = Counting()
    run_plan(planned(*EAGER, "measure.side_by_side=1"), folder, server)
    assert server.most["memory"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("scenario=while_loop", "execution=graph"),
        ("scenario=keras_training", "execution=graph"),
        (
            "scenario=callable",
            "scenario.target=tests.integration.scenarios.theirs:keeps",
            "execution=graph",
        ),
        ("scenario=large_tensor", "device=gpu"),
    ],
    ids=["concurrent", "training", "anybody's code", "a card"],
)
def test_where_others_could_move_a_figure_each_is_alone(
    words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.imports.check_import_path", lambda _: None)
    server = Counting()
    run_plan(planned(*words, "seed=1,2,3", "measure.timing_processes=0"), folder, server)
    assert server.most["memory"] == 1


def test_a_cell_is_alone_once_its_trials_have_differed(folder: Path) -> None:
    runs = OpenRuns(folder, executor_on(Counting())).open(Grid(planned(*EAGER)).ask())
    assert scheduler.can_run_concurrently(runs[0])
    runs[0].memory_trials += [memory_trial(1000), memory_trial(1004, index=1)]
    assert not scheduler.can_run_concurrently(runs[0])


def test_no_more_at_once_than_free_memory_holds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Counting()
    monkeypatch.setattr(scheduler, "read_free_bytes", lambda: 3 * 2**30)
    run_plan(
        planned(*EAGER, "measure.side_by_side=4", "device.memory_limit_mb=1024"), folder, server
    )
    assert server.most["memory"] == 1  # each may take 2 GB


def test_free_memory_is_what_can_be_had_without_swap() -> None:
    lines = Path("/proc/meminfo").read_text().splitlines()
    total = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal:")) * 1024
    assert 0 < scheduler.read_free_bytes() < total


@pytest.mark.parametrize("status", [Status.KILLED, Status.TIMED_OUT, Status.OUT_OF_MEMORY])
def test_who_ends_badly_in_company_is_asked_again_alone(status: Status, folder: Path) -> None:
    """And what it says then is its outcome; where it ends so alone as well, it stays so."""

    def ends(spec: TrialSpec, beside: int) -> Status | None:
        seed = spec.experiment.seed
        return status if seed == 1 or (seed == 2 and beside > 1) else None

    words = ("scenario=large_tensor", "seed=1,2", "measure.timing_processes=0")
    server = Counting(beside=2, ends=ends)
    result = run_plan(planned(*words, "measure.side_by_side=2"), folder, server)
    assert [outcome.status for outcome in result.outcomes] == [status, Status.COMPLETED]
    assert len(server.asked) == 4
    assert [trial.outcome.status for trial in records.read_trials(folder / "1")] == ["completed"]


def test_an_interruption_ends_all_that_are_at_work(folder: Path) -> None:
    """And what had ended is kept."""

    class Stopped(Counting):
        def run(self, spec: TrialSpec, *_: object, **__: object) -> Trial:
            if spec.experiment.seed == 0:
                raise Interrupted(signal.SIGINT)
            self.was_cut.wait(30)
            return Trial("memory", 0, Outcome(Status.KILLED, None, "cut"))

    server = Stopped()
    result = run_plan(planned(*EAGER, "measure.side_by_side=4"), folder, server)
    assert server.was_cut.is_set()
    assert {outcome.status for outcome in result.outcomes} == {Status.INTERRUPTED}


def test_it_decides_no_measurement_and_is_one_for_all_cells() -> None:
    one, two = (planned("scenario=tape", "seed=1,2", f"measure.side_by_side={n}") for n in (1, 2))
    assert [c.experiment.cell for c in one.cells] == [c.experiment.cell for c in two.cells]
    assert "side_by_side" not in asdict(one.cells[0].experiment.spec)["measure"]
    with pytest.raises(BadInput, match=r"measure.side_by_side: a sweep has one for all"):
        planned("scenario=tape", "measure.side_by_side=1,2")
