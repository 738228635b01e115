"""Memory trials run side by side where nothing can come of it, and their figures are the same."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runner import records
from runner.composing import composition
from runner.errors import BadInput, Interrupted
from runner.isolation.server import Server
from runner.plan import Assignment, Plan
from runner.records import Outcome, Status, Trial
from runner.running import company, engine
from tests.factories import memory_trial, timing_trial
from tests.running.conftest import ran


class Counting:
    """In place of the server: counts who is at work beside whom. A memory trial waits for `beside`
    others before it ends, if they come."""

    def __init__(
        self, beside: int = 1, ends: Callable[[Assignment, int], Status | None] = lambda *_: None
    ) -> None:
        self.most: dict[str, int] = {"memory": 0, "timing": 0}
        self.asked: list[Assignment] = []
        self.was_cut = threading.Event()
        self._at_work: list[Assignment] = []
        self._beside = beside
        self._ends = ends
        self._changed = threading.Condition()

    def run(self, assignment: Assignment, *_: object, **__: object) -> Trial:
        kind = assignment.kind
        with self._changed:
            first = kind == "memory" and assignment not in self.asked
            patience = 0.01 if self._beside == 1 else 2.0 if first else 0.1
            self.asked.append(assignment)
            self._at_work.append(assignment)
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._at_work) >= self._beside, patience)
            most = len(self._at_work)
        time.sleep(0.01)
        with self._changed:
            self.most[kind] = max(self.most[kind], most)
            self._at_work.remove(assignment)
        if status := self._ends(assignment, most):
            return Trial(kind, assignment.index, Outcome(status, "steps", "because"))
        return (memory_trial if kind == "memory" else timing_trial)(index=assignment.index)

    def cut(self) -> None:
        self.was_cut.set()


def planned(*words: str) -> Plan:
    return composition.plan(["-m", *words, "tracking=none"], Path("/nowhere/at/all"))


EAGER = ("scenario=large_tensor", "seed=range(4)", "measure.timing_processes=1")


def test_memory_trials_run_side_by_side_and_a_timing_trial_beside_none(folder: Path) -> None:
    server = Counting(beside=2)
    ran(planned(*EAGER, "measure.side_by_side=2"), folder, server)
    assert server.most == {"memory": 2, "timing": 1}
    assert len(server.asked) == 8


def test_one_by_one_if_the_user_says_so(folder: Path) -> None:
    server = Counting()
    ran(planned(*EAGER, "measure.side_by_side=1"), folder, server)
    assert server.most["memory"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("scenario=while_loop", "execution=graph"),
        ("scenario=keras_training", "execution=graph"),
        ("scenario=callable", "scenario.target=tests.scenarios.theirs:keeps", "execution=graph"),
        ("scenario=large_tensor", "device=gpu"),
    ],
    ids=["concurrent", "training", "anybody's code", "a card"],
)
def test_where_others_could_move_a_figure_each_is_alone(
    words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.imports.check_import_path", lambda _: None)
    server = Counting()
    ran(planned(*words, "seed=1,2,3", "measure.timing_processes=0"), folder, server)
    assert server.most["memory"] == 1


def test_a_cell_whose_trials_have_differed_is_alone_from_then_on(folder: Path) -> None:
    with engine.open_plan(planned(*EAGER), folder) as runs:
        assert company.may_have(runs[0])
        runs[0].memory_trials += [memory_trial(1000), memory_trial(1004, index=1)]
        assert not company.may_have(runs[0])


def test_no_more_at_once_than_free_memory_holds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Counting()
    monkeypatch.setattr(company, "free_bytes", lambda: 3 * 2**30)
    ran(planned(*EAGER, "measure.side_by_side=4", "device.memory_limit_mb=1024"), folder, server)
    assert server.most["memory"] == 1  # each may take 2 GB


def test_free_memory_is_what_can_be_had_without_swap() -> None:
    lines = Path("/proc/meminfo").read_text().splitlines()
    total = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal:")) * 1024
    assert 0 < company.free_bytes() < total


@pytest.mark.parametrize("status", [Status.KILLED, Status.TIMED_OUT, Status.OUT_OF_MEMORY])
def test_who_ends_badly_in_company_is_asked_again_alone(status: Status, folder: Path) -> None:
    """And what it says then is its outcome; where it ends so alone as well, it stays so."""

    def ends(assignment: Assignment, beside: int) -> Status | None:
        seed = assignment.experiment.seed
        return status if seed == 1 or (seed == 2 and beside > 1) else None

    words = ("scenario=large_tensor", "seed=1,2", "measure.timing_processes=0")
    server = Counting(beside=2, ends=ends)
    result = ran(planned(*words, "measure.side_by_side=2"), folder, server)
    assert [outcome.status for outcome in result.outcomes] == [status, Status.COMPLETED]
    assert len(server.asked) == 4
    assert [trial.outcome.status for trial in records.read_trials(folder / "1")] == ["completed"]


def test_searches_in_threads_of_their_own_share_the_machine_by_the_same_rules() -> None:
    """Memory trials beside each other, a timing trial beside none; who ends badly in company is
    asked again alone."""
    server = Counting(beside=2, ends=lambda _, beside: Status.TIMED_OUT if beside > 1 else None)
    turns = company.Turns(server, 2)  # type: ignore[arg-type]
    experiments = [cell.experiment for cell in planned(*EAGER).cells]
    wanted = [Assignment(experiments[n], "memory", 0) for n in range(3)]
    wanted.append(Assignment(experiments[3], "timing", 0))
    with ThreadPoolExecutor(4) as threads:
        trials = [*threads.map(turns.run, wanted)]
    assert all(trial.outcome.completed for trial in trials)
    assert server.most == {"memory": 2, "timing": 1}


def test_an_interruption_ends_all_that_are_at_work(folder: Path) -> None:
    """And what had ended is kept."""

    class Stopped(Counting):
        def run(self, assignment: Assignment, *_: object, **__: object) -> Trial:
            if assignment.experiment.seed == 0:
                raise Interrupted(signal.SIGINT)
            self.was_cut.wait(30)
            return Trial("memory", 0, Outcome(Status.KILLED, None, "cut"))

    server = Stopped()
    result = ran(planned(*EAGER, "measure.side_by_side=4"), folder, server)
    assert server.was_cut.is_set()
    assert {outcome.status for outcome in result.outcomes} == {Status.INTERRUPTED}


def test_it_decides_no_measurement_and_is_one_for_all_cells() -> None:
    one, two = (planned("scenario=tape", "seed=1,2", f"measure.side_by_side={n}") for n in (1, 2))
    assert [c.experiment.cell for c in one.cells] == [c.experiment.cell for c in two.cells]
    assert "side_by_side" not in one.cells[0].experiment.spec["measure"]
    with pytest.raises(BadInput, match=r"measure.side_by_side: a sweep has one for all"):
        planned("scenario=tape", "measure.side_by_side=1,2")


def test_figures_are_the_same_side_by_side_to_the_byte(server: Server, tmp_path: Path) -> None:
    """In real processes: eager, as a graph that is shown to repeat, and under XLA."""
    found: list[list[records.Record]] = []
    for at_once in (1, 3):
        plan = planned(
            *("scenario=large_tensor", "execution=eager,graph,xla", "scenario.size=100,300"),
            *("measure.timing_processes=0", f"measure.side_by_side={at_once}"),
        )
        place = tmp_path / str(at_once) / "12-00-00"
        assert ran(plan, place, server).exit_code == 0
        kept = [records.read(place / str(number)) for number in range(len(plan.cells))]
        found.append(kept)
    for alone, beside in zip(*found, strict=True):
        assert alone.metrics == beside.metrics
        assert alone.intervals == beside.intervals
        one, other = alone.allocations, beside.allocations
        assert one is not None
        assert other is not None
        assert (one.groups, one.lines) == (other.groups, other.lines)
