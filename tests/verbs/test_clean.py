"""`clean`: what is deleted, what is left, and that MLflow keeps nothing of what is gone."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runner import records
from tests.conftest import Cli
from tests.factories import completed, kept, sweep_of_nine

OLD, NEW = datetime.now() - timedelta(days=40), datetime.now() - timedelta(days=2)


def run_of(outputs: Path, when: datetime) -> Path:
    day, time = f"{when:%Y-%m-%d}", f"{when:%H-%M-%S}-aaaa"
    return kept(completed(f"{day}-{time}"), outputs / "runs" / day / time)


def sweep_in(outputs: Path, when: datetime) -> Path:
    day, time = f"{when:%Y-%m-%d}", f"{when:%H-%M-%S}-bbbb"
    folder = outputs / "sweeps" / day / time
    for number, record in enumerate(sweep_of_nine(f"{day}-{time}")):
        kept(record, folder / str(number))
    (folder / "plan.json").write_text("{}")
    return folder


@pytest.fixture
def four(outputs: Path) -> dict[str, Path]:
    return {
        "old run": run_of(outputs, OLD),
        "new run": run_of(outputs, NEW),
        "old sweep": sweep_in(outputs, OLD),
        "new sweep": sweep_in(outputs, NEW),
    }


def left(four: dict[str, Path]) -> set[str]:
    return {name for name, folder in four.items() if folder.exists()}


def test_what_is_older_goes_and_the_rest_stays(
    four: dict[str, Path], cli: Cli, outputs: Path
) -> None:
    done = cli("clean", "--older-than", "30")
    assert done.returncode == 0, done.stderr
    assert left(four) == {"new run", "new sweep"}
    assert len(done.stdout.splitlines()) == 2
    assert not four["old run"].parent.exists(), "a day without runs has no folder"


def test_a_dry_run_says_it_and_deletes_nothing(four: dict[str, Path], cli: Cli) -> None:
    told = json.loads(cli("clean", "--older-than", "30", "--dry-run", "--json").stdout)
    assert {each["folder"] for each in told} == {str(four["old run"]), str(four["old sweep"])}
    assert all(each["bytes"] > 1000 and not each["deleted"] for each in told)
    assert left(four) == set(four)


def test_named_folders_go_whole(four: dict[str, Path], cli: Cli, outputs: Path) -> None:
    done = cli("clean", str(four["new sweep"]), cwd=outputs)
    assert done.returncode == 0, done.stderr
    done = cli("clean", f"runs/{four['old run'].parent.name}", cwd=outputs)
    assert done.returncode == 0, done.stderr
    assert left(four) == {"new run", "old sweep"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing is named"),
        (["sweeps/nowhere"], "no such folder"),
        (["/usr"], "is not in"),
        ([".."], "is not in"),
        (["--older-than", "soon"], "--older-than"),
        (["--everything"], "--everything"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: list[str], says: str, four: dict[str, Path], cli: Cli, outputs: Path
) -> None:
    done = cli("clean", *words, cwd=outputs)
    assert done.returncode == 2
    assert says in done.stderr
    assert left(four) == set(four)


def test_a_single_cell_of_a_sweep_is_not_deleted(
    four: dict[str, Path], cli: Cli, outputs: Path
) -> None:
    done = cli("clean", str(four["old sweep"] / "3"))
    assert done.returncode == 2
    assert "Name the whole" in done.stderr
    assert left(four) == set(four)


def test_nothing_but_runs_and_sweeps_is_ever_deleted(
    four: dict[str, Path], cli: Cli, outputs: Path
) -> None:
    others = [outputs / "mine" / "2020-01-01", outputs / "artifacts" / "2020" / "artifacts"]
    for other in others:
        other.mkdir(parents=True)
        (other / "record.json").write_text("{}")
    cli("clean", str(outputs))
    assert left(four) == set()
    assert all((other / "record.json").exists() for other in others)


def test_a_sweep_that_is_running_is_left(four: dict[str, Path], cli: Cli) -> None:
    with (four["old sweep"] / "plan.json").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = cli("clean", "--older-than", "30")
    assert done.returncode == 0
    assert "still running" in done.stdout
    assert left(four) == {"new run", "new sweep", "old sweep"}


def rows(outputs: Path, what: str) -> list[Any]:
    with closing(sqlite3.connect(outputs / "mlflow.db")) as database:
        return database.execute(what).fetchall()


def test_its_runs_are_gone_from_mlflow_and_those_of_others_are_not(
    four: dict[str, Path], cli: Cli, outputs: Path
) -> None:
    assert cli("publish", str(outputs / "runs"), str(outputs / "sweeps")).returncode == 0
    assert len(rows(outputs, "SELECT run_uuid FROM runs")) == 20
    assert len(records.find(outputs)) == 20, "the store's copies of records are not found"
    done = cli("clean", "--older-than", "30")
    assert "1 run in MLflow  deleted" in done.stdout
    assert "9 runs in MLflow  deleted" in done.stdout
    ids = {identity for (identity,) in rows(outputs, "SELECT run_uuid FROM runs")}
    assert len(ids) == 10
    assert {path.name for path in (outputs / "artifacts").iterdir()} == ids
    for table in ("metrics", "params", "tags", "latest_metrics"):
        assert {identity for (identity,) in rows(outputs, f"SELECT run_uuid FROM {table}")} <= ids
