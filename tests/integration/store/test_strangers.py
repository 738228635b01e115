"""What a store answers, and what others put into it, names no folder of this user's."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from runner import paths
from runner.errors import BadInput, StoreError
from runner.records import Outcome, Status
from runner.store.background import BackgroundPublisher
from runner.store.location import StoreLocation, locate_store, make_python_path
from tests.factories import completed, kept, sweep_of_nine
from tests.stores import LOCAL, Runs


@pytest.fixture
def open_at(mlflow_imported: None) -> Any:
    from runner.store.mlflow_store import MlflowStore

    def open_one(location: StoreLocation) -> Any:
        store = MlflowStore(location, 20.0)
        if location.database:
            store.prepare()
        return store

    return open_one


class Server:
    """In place of a server: says where artifacts go, and takes them."""

    def __init__(self, artifacts: str) -> None:
        self._artifacts = artifacts
        self.taken: list[str] = []

    def get_run(self) -> Any:
        return SimpleNamespace(info=SimpleNamespace(artifact_uri=self._artifacts))

    def open(self, address: str, *, tracking_uri: str) -> Server:
        """In place of MLflow's own function."""
        assert address == self._artifacts
        return self

    def log_artifact(self, path: str) -> None:
        self.taken.append(path)


@pytest.mark.parametrize(
    ("server", "artifacts", "is_taken"),
    [
        ("https://mlflow.example", "/home/me/.ssh", False),
        ("https://mlflow.example", "file:///home/me/.ssh", False),
        ("https://mlflow.example", "FILE:///home/me/.ssh", False),
        ("https://mlflow.example", "", False),
        ("https://mlflow.example", "runs:/1/x", False),
        ("https://mlflow.example", "Runs:/1/x", False),
        ("https://mlflow.example", "models:/1/x", False),
        ("https://mlflow.example", "c:/home/me/.ssh", False),
        ("https://mlflow.example", "dbfs:/home/me/.ssh", False),
        ("https://mlflow.example", "mlflow-artifacts:/1/2/artifacts", True),
        ("https://mlflow.example", "s3://bucket/1/2/artifacts", True),
        ("http://127.0.0.1:5000", "/home/me/mlartifacts/1/2/artifacts", True),
        ("http://localhost:5000", "/home/me/mlartifacts/1/2/artifacts", True),
    ],
)
def test_a_server_elsewhere_names_no_folder_of_this_machine(
    server: str,
    artifacts: str,
    is_taken: bool,
    tmp_path: Path,
    open_at: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = kept(completed(), tmp_path / "run")
    store = open_at(StoreLocation(server, None, "runner", server, str(tmp_path)))
    client = Server(artifacts)
    monkeypatch.setattr("runner.store.mlflow_store.get_artifact_repository", client.open)
    if is_taken:
        store._attach_files(client.get_run(), folder)
    else:
        with pytest.raises(StoreError, match="may be a folder of this machine"):
            store._attach_files(client.get_run(), folder)
    assert bool(client.taken) is is_taken


@pytest.mark.parametrize(
    "other",
    [
        {"outcome": Outcome(Status.FAILED, "steps", "another's reason")},
        {"environment": msgspec.structs.replace(completed().environment, kernel="theirs")},
        {"fingerprint": "theirs"},
        {"trials": completed().trials[:1]},
        {},
    ],
)
def test_a_stranger_s_copy_overwrites_nothing(
    other: dict[str, Any],
    location: StoreLocation,
    outputs: Path,
    tmp_path: Path,
    runs: Runs,
    open_at: Any,
) -> None:
    store = open_at(location)
    stored = store.publish(kept(completed(), outputs / "runs" / "1"))
    before = runs()[0].to_dictionary()
    theirs = kept(dataclasses.replace(completed(), **other), tmp_path / "theirs")
    (theirs / "run.log").write_text("theirs")
    (theirs / "report.html").write_text("theirs")
    if other:
        with pytest.raises(BadInput, match="other content"):
            store.publish(theirs)
    else:
        assert store.publish(theirs) == stored
    (run,) = runs()
    assert run.to_dictionary() == before
    assert (Path(run.info.artifact_uri) / "run.log").read_text() != "theirs"
    assert not (Path(run.info.artifact_uri) / "report.html").exists()


def test_a_moved_sweep_is_the_same_one(
    location: StoreLocation, outputs: Path, tmp_path: Path, runs: Runs, open_at: Any
) -> None:
    store, sweep = open_at(location), outputs / "sweeps" / "s"
    kept(sweep_of_nine()[0], sweep / "0")
    first, whole = store.publish(sweep / "0"), store.publish_sweep(sweep)
    moved = sweep.rename(tmp_path / "moved")
    assert store.publish(moved / "0") == first
    assert store.publish_sweep(moved) == whole
    assert len(runs()) == 2


ODD_NAMES = ("a%20b", "a?b", "a#b", "a'\"b", "a%2Fb", "file:", "100%", "a\\b", "é \n")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_outputs_of_any_name_hold_all_that_is_written(
    name: str, tmp_path: Path, open_at: Any
) -> None:
    outputs = tmp_path / name / "outputs"
    outputs.mkdir(parents=True)
    store = open_at(locate_store(LOCAL, outputs))
    stored = store.publish(kept(completed(), outputs / "runs" / "1"))
    assert (outputs / "artifacts" / stored.run_id / "artifacts" / "record.json").exists()
    assert len(store.remove(completed().id)) == 1
    assert list((outputs / "artifacts").iterdir()) == []
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_record_without_figures_does_not_replace_one_with_them(
    location: StoreLocation, outputs: Path, tmp_path: Path, runs: Runs, open_at: Any
) -> None:
    store = open_at(location)
    stored = store.publish(kept(completed(), outputs / "runs" / "1"))
    bare = dataclasses.replace(completed(), metrics={}, intervals={}, unavailable={})
    with pytest.raises(BadInput, match="other content"):
        store.publish(kept(bare, tmp_path / "bare"))
    (run,) = runs()
    assert run.info.run_id == stored.run_id
    assert run.data.metrics["tensor_peak_bytes"] == completed().metrics["tensor_peak_bytes"]


@pytest.mark.parametrize("stage", ["active", "deleted"])
def test_a_run_s_id_that_is_a_path_removes_nothing(
    stage: str, location: StoreLocation, outputs: Path, runs: Runs, open_at: Any
) -> None:
    store = open_at(location)
    stored = store.publish(kept(completed(), outputs / "runs" / "1"))
    victim = outputs / "victim"
    victim.mkdir()
    (victim / "file").touch()
    with closing(sqlite3.connect(str(location.database))) as database:
        names = [name for _, name, *_ in database.execute("PRAGMA table_info(runs)")]
        others = ", ".join(name for name in names if name not in ("run_uuid", "lifecycle_stage"))
        database.execute(
            f"INSERT INTO runs (run_uuid, lifecycle_stage, {others}) "
            f"SELECT '../victim', '{stage}', {others} FROM runs"
        )
        database.execute(
            "INSERT INTO tags (key, value, run_uuid) SELECT key, value, '../victim' FROM tags"
        )
        database.commit()
    assert len(store.remove(completed().id)) == 1
    assert (victim / "file").exists()
    assert stored.run_id not in [run.info.run_id for run in runs()]


def test_other_processes_import_from_the_same_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", "src", "/whole", ""]))
    monkeypatch.chdir(tmp_path)
    here = [str(tmp_path), str(tmp_path / "src"), "/whole"]
    assert make_python_path().split(os.pathsep) == [str(paths.find_package().parent), *here]


@pytest.mark.parametrize("name", ["mlflow.py", "sqlalchemy.py", "json.py"])
def test_nothing_is_imported_from_the_outputs(name: str, outputs: Path, tmp_path: Path) -> None:
    outputs.mkdir()
    (outputs / name).write_text("raise RuntimeError('this must not run')")
    publisher = BackgroundPublisher(LOCAL, outputs, tmp_path / "log")
    publisher.publish(kept(completed(), outputs / "runs" / "1"))
    (published,) = publisher.finish()
    assert published.problem is None
