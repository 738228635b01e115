"""Sweeps: their logs, their resuming, their store, and what none can be."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from runner import records
from runner.cell import Plan
from runner.compose import composition
from runner.processes.server import TrialServer
from tests.conftest import Cli
from tests.resuming import (
    BRIEF,
    GRID,
    only,
    stored,
    table,
)
from tests.unit.engine.conftest import Recorder, run_plan


def planned(*words: str) -> Plan:
    said = ["-m", *words, "tracking=none", "measure.side_by_side=1"]
    return composition.compose_plan(said)


THEIRS = """
def make(batch_size):
    print(f"built with {batch_size}")
    return lambda: None
"""


def test_what_a_cell_prints_is_in_its_own_log(
    folder: Path, server: TrialServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "printing.py").write_text(THEIRS)
    monkeypatch.chdir(tmp_path)
    target = ("scenario=callable", "scenario.target=printing:make")
    plan = planned(*target, "execution=eager,session", "batch_size=4,8", *BRIEF)
    run_plan(plan, folder, server)
    logs = [(folder / str(number) / "run.log").read_text() for number in range(4)]
    assert "built with 4" in logs[0]
    assert "built with 8" in logs[1]
    assert "built with 8" not in logs[0]
    assert logs[2:] == ["", ""], "there is no session execution of it"
    for cell in records.find(folder):
        assert {"record.json", "trials.jsonl", "config.yaml"} <= {
            path.name for path in cell.iterdir()
        }


def test_figures_are_the_same_side_by_side_to_the_byte(server: TrialServer, tmp_path: Path) -> None:
    """In real processes: eager, as a graph that is shown to repeat, and under XLA."""
    found: list[list[records.Record]] = []
    for at_once in (1, 3):
        words = (
            *("scenario=large_tensor", "execution=eager,graph,xla", "scenario.size=300"),
            *("measure.timing_processes=0", f"measure.side_by_side={at_once}"),
        )
        said = ["-m", *words, "tracking=none"]
        plan = composition.compose_plan(said)
        place = tmp_path / str(at_once) / "12-00-00"
        assert run_plan(plan, place, server).exit_code == 0
        kept = [records.read(place / str(number)) for number in range(len(plan.cells))]
        found.append(kept)
    for alone, beside in zip(*found, strict=True):
        assert alone.metrics == beside.metrics
        assert alone.intervals == beside.intervals
        one, other = alone.allocations, beside.allocations
        assert one is not None
        assert other is not None
        assert (one.groups, one.lines) == (other.groups, other.lines)


@pytest.mark.usefixtures("mlflow_imported")
def test_finished_cells_are_stored_on_resume(warm_cli: Cli, outputs: Path) -> None:
    warm_cli(*GRID, *BRIEF, "tracking=none")
    # One is stored already, so that the store is there: to make it may take longer than a sweep
    # waits that has nothing to measure meanwhile.
    assert warm_cli("publish", str(only(outputs) / "0")).returncode == 0
    assert len(stored(outputs)) == 2, "the cell, and the sweep that it belongs to"
    done = warm_cli(*GRID, *BRIEF, "resume=latest")
    assert done.returncode == 0, done.stderr
    assert "4 cells, 4 of them done, 0 trials (all done) of 12 left" in done.stderr
    assert len(stored(outputs)) == 5


def test_an_unreachable_store_is_one_warning_with_the_folder(warm_cli: Cli, outputs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = ("tracking=server", f"tracking.uri=http://127.0.0.1:{port}")
    words = ("-m", "scenario=numpy_loop", "batch_size=4,8", *BRIEF)
    done = warm_cli(*words, *server)
    assert done.returncode == 0
    assert done.stderr.count("Not in the tracking store: ") == 1
    command = f"python -m runner publish {only(outputs)} {' '.join(server)}"
    assert f"Bring it in later: {command}\n" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["scenario=numpy_loop", "batch_size=4,8,16"], "another grid"),
        (["scenario=numpy_loop", "batch_size=8,4"], "another grid"),
        (["scenario=numpy_loop", "batch_size=4,8", "measure.steps=7"], "another grid"),
    ],
)
def test_a_different_grid_is_bad_input(
    words: Sequence[str], says: str, front_door: Cli, outputs: Path
) -> None:
    folder = outputs / "sweeps" / "2026-01-31" / "12-00-00-abcd"
    run_plan(planned("scenario=numpy_loop", "batch_size=4,8"), folder, Recorder())
    before = sorted(outputs.rglob("*"))
    done = front_door("-m", *words, "tracking=none", f"resume={folder}")
    assert done.returncode == 2
    assert says in done.stderr
    assert sorted(outputs.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["resume=/nowhere"], "is not the folder of a sweep"),
        (["tracking=none,local"], "tracking: a sweep has one"),
        (["resume=latest,null"], "resume: a sweep has one"),
        (["seed=range(0)"], "no cells"),
    ],
)
def test_what_no_sweep_can_be_is_refused(
    words: Sequence[str], says: str, front_door: Cli, outputs: Path
) -> None:
    done = front_door("-m", "scenario=numpy_loop", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert not outputs.exists()


def test_cells_that_do_not_complete_are_rows_with_their_reasons(
    warm_cli: Cli, outputs: Path
) -> None:
    done = warm_cli(
        *("-m", "scenario=numpy_loop", "execution=eager,graph", "batch_size=4"),
        *("scenario.iterations=5,2000000000", "measure.timeout_seconds=3", "tracking=none"),
        *BRIEF,
    )
    assert done.returncode == 1, done.stderr
    frame = table(only(outputs))
    statuses = frame.set_index(["execution", "iterations"]).status
    assert statuses.to_dict() == {
        ("eager", 5): "completed",
        ("eager", 2_000_000_000): "timed_out",
        ("graph", 5): "unsupported",
        ("graph", 2_000_000_000): "unsupported",
    }
    for status, reason in zip(frame.status, frame.reason, strict=True):
        assert (status == "completed") == (not isinstance(reason, str))
        assert status == "completed" or reason[:60] in done.stdout
    lines = done.stdout.strip().split("\n")
    first_failure = next(i for i, line in enumerate(lines) if "unsupported" in line)
    assert not any(" ms " in line for line in lines[first_failure:]), "failures come last"


def test_a_sweep_is_not_resumed_with_changed_code(
    warm_cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    target = tmp_path / "mine.py"
    target.write_text(
        "import tensorflow as tf\n\ndef step(width):\n"
        "    assert width < 3\n    return lambda: tf.ones([width])\n"
    )
    words = (
        *("-m", "scenario=callable", "scenario.target=mine:step", "scenario.arguments.width=1,2"),
        *("measure=quick", "measure.timing_processes=1", "tracking=none"),
    )
    assert warm_cli(*words, cwd=tmp_path).returncode == 0
    folder = only(outputs)
    record = records.read(folder / "0")
    assert list(record.environment.code.files) == ["mine.py"]
    assert record.environment.code.changed_meanwhile == ()
    lines = (folder / "1" / "trials.jsonl").read_text().splitlines(keepends=True)
    (folder / "1" / "trials.jsonl").write_text(lines[0])  # as if it had been cut short

    target.write_text(target.read_text() + "# and more\n")
    refused = warm_cli(*words, "resume=latest", cwd=tmp_path)
    assert refused.returncode == 2
    assert "mine.py has changed since cell 0 was measured" in refused.stderr
