"""Cells are measured in rounds, and after any end resumed to the same records."""

from __future__ import annotations

import signal
import tracemalloc
from pathlib import Path

from runner import records
from runner.cell import Plan, TrialSpec
from runner.compose import composition
from runner.engine.requests import Evidence
from runner.errors import Interrupted
from runner.records import Outcome, Status
from tests.factories import memory_trial, timing_trial
from tests.unit.engine.conftest import Recorder, run_plan


def planned(*words: str) -> Plan:
    said = ["-m", *words, "tracking=none", "measure.side_by_side=1"]
    return composition.compose_plan(said)


def test_every_round_has_each_cell_once_in_another_order(folder: Path) -> None:
    server = Recorder()
    run_plan(planned("scenario=numpy_loop", "seed=range(6)"), folder, server)
    rounds = [server.asked[start : start + 6] for start in range(0, 24, 6)]
    assert [{kind for _, kind, _ in each} for each in rounds] == [
        *({"memory"}, {"timing"}, {"timing"}, {"timing"})
    ]
    orders = [[cell for cell, _, _ in each] for each in rounds]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert len(set(map(tuple, orders))) == 4


def test_a_failed_cell_has_no_more_trials_and_stops_none(folder: Path) -> None:
    ends = [Status.FAILED, Status.OUT_OF_MEMORY, Status.TIMED_OUT, Status.KILLED]
    outcomes = {seed: Outcome(status, "steps", "because") for seed, status in enumerate(ends)}
    server = Recorder(lambda each: outcomes.get(each.experiment.seed))
    result = run_plan(planned("scenario=numpy_loop", "seed=range(6)"), folder, server)
    assert [outcome.status for outcome in result.outcomes] == [*ends, "completed", "completed"]
    assert result.exit_code == 1
    assert len(server.asked) == 4 + 2 * 4
    assert [records.read(folder / str(number)).outcome for number in range(4)] == list(
        outcomes.values()
    )


def test_a_stopped_sweep_keeps_trials_and_resumes_with_the_rest(folder: Path) -> None:
    plan = planned("scenario=numpy_loop", "seed=range(3)")
    first = Recorder()

    def stop(_: TrialSpec) -> None:
        if len(first.asked) == 8:
            raise Interrupted(signal.SIGINT)

    first._ends = stop
    result = run_plan(plan, folder, first)
    assert result.exit_code == 130
    assert {outcome.status for outcome in result.outcomes} == {"interrupted"}
    assert {records.read(cell).outcome.status for cell in records.find(folder)} == {"interrupted"}
    second = Recorder()
    assert run_plan(plan, folder, second).exit_code == 0
    assert sorted(first.asked[:7] + second.asked) == sorted(
        (cell.experiment.cell, kind, index)
        for cell in plan.cells
        for kind in ("memory", "timing")
        for index in range(getattr(Evidence.from_measure(cell.experiment.measure), kind))
    )
    assert all(records.read(cell).outcome.completed for cell in records.find(folder))


def test_resuming_what_is_complete_runs_nothing_and_leaves_the_records(folder: Path) -> None:
    plan = planned("scenario=numpy_loop,while_loop", "execution=eager,xla")  # numpy_loop has no xla
    run_plan(plan, folder, Recorder())
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    server = Recorder()
    run_plan(plan, folder, server)
    assert server.asked == []
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_record_unwritten_by_a_kill_is_made_from_trials(folder: Path) -> None:
    plan = planned("scenario=numpy_loop", "seed=0,1")
    run_plan(plan, folder, Recorder())
    record = folder / "1" / "record.json"
    whole = record.read_bytes()
    record.unlink()
    server = Recorder()
    run_plan(plan, folder, server)
    assert server.asked == []
    assert record.read_bytes() == whole


def test_identical_cells_are_measured_each_for_itself(folder: Path) -> None:
    server = Recorder()
    run_plan(planned("scenario=numpy_loop", "seed=0,0"), folder, server)
    assert len(server.asked) == 8
    assert len({records.read(cell).id for cell in records.find(folder)}) == 2


def test_a_sweep_holds_no_samples_in_memory(
    folder: Path,
) -> None:
    def held(cells: int, steps: int) -> int:
        plan = planned("scenario=numpy_loop", f"seed=range({cells})")
        seconds = [0.001 * step for step in range(steps)]
        server = Recorder()
        server.run = lambda each, *_: (  # type: ignore[method-assign]
            memory_trial() if each.kind == "memory" else timing_trial(seconds)
        )
        tracemalloc.start()
        result = run_plan(plan, folder.with_name(f"{cells}-{steps}"), server)
        current, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert result.exit_code == 0
        return current

    held(2, 10)  # whatever is cached is cached
    few, many = held(8, 10), held(8, 2000)
    assert many - few < 8 * 3 * 2000  # a byte a sample would be more
