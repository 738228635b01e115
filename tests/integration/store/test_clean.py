"""`clean`: what is deleted, what is left, and that MLflow keeps nothing of what is gone."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runner import paths
from runner.engine import folders
from tests.conftest import Cli
from tests.factories import completed, kept, sweep_of_nine

pytestmark = pytest.mark.usefixtures("mlflow_imported")

OLD, NEW = datetime.now() - timedelta(days=40), datetime.now() - timedelta(days=2)


def run_of(outputs: Path, when: datetime) -> Path:
    day, time = f"{when:%Y-%m-%d}", f"{when:%H-%M-%S}-aaaa"
    return kept(completed(f"{day}-{time}"), outputs / "runs" / day / time)


def sweep_in(outputs: Path, when: datetime) -> Path:
    day, time = f"{when:%Y-%m-%d}", f"{when:%H-%M-%S}-bbbb"
    folder = outputs / "sweeps" / day / time
    for number, record in enumerate(sweep_of_nine(f"{day}-{time}")):
        kept(record, folder / str(number))
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


def test_without_yes_it_says_what_would_go_and_deletes_nothing(
    four: dict[str, Path], front_door: Cli
) -> None:
    done = front_door("clean", "--older-than", "30")
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    old = {paths.shorten(four["old run"]), paths.shorten(four["old sweep"])}
    assert {line.split()[0] for line in lines} == old
    assert "Nothing was deleted. Add --yes to delete." in last
    told = json.loads(front_door("clean", "--older-than", "30", "--json").stdout)
    assert {each["folder"] for each in told} == {str(four["old run"]), str(four["old sweep"])}
    assert all(each["bytes"] > 1000 and not each["deleted"] for each in told)
    assert left(four) == set(four)


def test_what_is_older_goes_and_the_rest_stays(four: dict[str, Path], front_door: Cli) -> None:
    done = front_door("clean", "--older-than", "30", "--yes")
    assert done.returncode == 0, done.stderr
    assert left(four) == {"new run", "new sweep"}
    assert len(done.stdout.splitlines()) == 2
    assert not four["old run"].parent.exists(), "a day without runs has no folder"


def test_named_folders_go_whole(four: dict[str, Path], front_door: Cli, outputs: Path) -> None:
    done = front_door("clean", "--yes", str(four["new sweep"]), cwd=outputs)
    assert done.returncode == 0, done.stderr
    done = front_door("clean", f"runs/{four['old run'].parent.name}", "--yes", cwd=outputs)
    assert done.returncode == 0, done.stderr
    assert left(four) == {"new run", "old sweep"}


def test_of_a_named_folder_only_what_is_older_goes(
    four: dict[str, Path], front_door: Cli, outputs: Path
) -> None:
    done = front_door("clean", str(outputs / "runs"), "--older-than", "30", "--yes")
    assert done.returncode == 0, done.stderr
    assert left(four) == {"new run", "old sweep", "new sweep"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing is named"),
        (["sweeps/nowhere"], "no such folder"),
        (["/usr"], "is not in"),
        ([".."], "is not in"),
        (["--older-than", "soon"], "'soon' is not a number of days"),
        (["--older-than", "-1"], "'-1' is not a number of days"),
        (["--older-than", "nan"], "'nan' is not a number of days"),
        (["--everything"], "--everything"),
        (["tracking=elsewhere", "sweeps"], "no tracking of that name"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: list[str], says: str, four: dict[str, Path], front_door: Cli, outputs: Path
) -> None:
    done = front_door("clean", *words, "--yes", cwd=outputs)
    assert done.returncode == 2
    assert says in done.stderr
    assert left(four) == set(four)


def test_a_single_cell_of_a_sweep_is_not_deleted(four: dict[str, Path], front_door: Cli) -> None:
    done = front_door("clean", str(four["old sweep"] / "3"), "--yes")
    assert done.returncode == 2
    assert "Name the whole" in done.stderr
    assert left(four) == set(four)


def test_nothing_but_what_a_command_made_in_the_outputs_is_ever_deleted(
    four: dict[str, Path], front_door: Cli, outputs: Path, tmp_path: Path
) -> None:
    day = outputs / "runs" / "2020-01-01"
    outside = tmp_path / "12-00-00-abcd"
    others = [
        *(outside, day / "mine", day / "12-00-00-mine", outputs / "mine" / "12-00-00-abcd"),
        *(outputs / "runs" / "2020-13-01" / "12-00-00-abcd", outputs / "artifacts" / "2020"),
    ]
    for other in others:
        kept(completed("another"), other)
    (day / "12-00-00-abcd").symlink_to(outside)
    (outputs / "sweeps" / "2020-01-01").symlink_to(tmp_path)
    done = front_door("clean", str(outputs), "--yes")
    assert done.returncode == 0, done.stderr
    assert left(four) == set()
    assert all((other / "record.json").exists() for other in others)


def test_what_is_running_is_left(four: dict[str, Path], front_door: Cli) -> None:
    with folders.lock_folder(four["old sweep"]):
        done = front_door("clean", "--older-than", "30", "--yes")
    assert done.returncode == 1
    assert "left: it is still running" in done.stdout
    assert left(four) == {"new run", "new sweep", "old sweep"}


def rows(outputs: Path, what: str) -> list[Any]:
    with closing(sqlite3.connect(outputs / "mlflow.db")) as database:
        return database.execute(what).fetchall()


def test_its_runs_are_gone_from_mlflow_and_those_of_others_are_not(
    four: dict[str, Path], front_door: Cli, outputs: Path
) -> None:
    everything = (str(outputs / "runs"), str(outputs / "sweeps"))
    assert front_door("publish", *everything).returncode == 0
    assert front_door("publish", str(four["old run"]), "tracking.experiment=other").returncode == 0
    assert len(rows(outputs, "SELECT run_uuid FROM runs")) == 23
    told = json.loads(front_door("clean", "--older-than", "30", "--json").stdout)
    assert [row["tracked_runs"] for row in told] == [2, 10]
    before = {identity for row in told for identity in row["mlflow_runs"]}
    single = front_door("clean", str(four["new run"])).stdout
    assert re.search(r"  1 run in MLflow \([0-9a-f]{32}\)\n", single)
    done = front_door("clean", "--older-than", "30", "--yes")
    assert done.returncode == 0, done.stderr
    assert "2 runs in MLflow  deleted" in done.stdout
    assert "10 runs in MLflow  deleted" in done.stdout  # the sweep's own, and its nine cells'
    ids = {identity for (identity,) in rows(outputs, "SELECT run_uuid FROM runs")}
    assert len(ids) == 11
    assert not ids & before
    assert {path.name for path in (outputs / "artifacts").iterdir()} == ids
    for table in ("metrics", "params", "tags", "latest_metrics"):
        assert {identity for (identity,) in rows(outputs, f"SELECT run_uuid FROM {table}")} <= ids


def test_a_store_that_cannot_be_opened_keeps_the_folders_unless_it_is_left_alone(
    four: dict[str, Path], front_door: Cli, outputs: Path
) -> None:
    (outputs / "mlflow.db").write_bytes(b"no database at all, but long enough" * 9)
    done = front_door("clean", "--older-than", "30", "--yes")
    assert done.returncode == 1
    assert "file is not a database" in done.stderr
    assert "tracking=none" in done.stderr
    assert left(four) == set(four)
    assert front_door("clean", "--older-than", "30", "--yes", "tracking=none").returncode == 0
    assert left(four) == {"new run", "new sweep"}


def test_artifacts_that_cannot_be_deleted_keep_their_run_until_they_can(
    front_door: Cli, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_of(outputs, OLD)
    words = ("clean", str(folder), "--yes", "tracking=local")
    assert front_door("publish", str(folder), "tracking=local").returncode == 0
    remove, faults = os.rmdir, iter([OSError(errno.EIO, os.strerror(errno.EIO))])

    def rmdir(path: Any, *words: Any, **named: Any) -> None:
        for fault in faults:
            raise fault
        remove(path, *words, **named)

    monkeypatch.setattr(os, "rmdir", rmdir)
    refused = front_door(*words)
    assert refused.returncode == 1, refused.stdout
    assert "Input/output error" in refused.stdout
    assert folder.exists()
    assert front_door(*words).returncode == 0
    assert not folder.exists()
    assert list((outputs / "artifacts").iterdir()) == []
