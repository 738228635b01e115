"""The store itself: real SQLite files, real processes, a real MLflow server."""

from __future__ import annotations

import dataclasses
import getpass
import os
import shutil
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

from runner import records
from runner.config import Tracking
from runner.errors import BadInput, StoreError
from runner.machine import GitState
from runner.records import Outcome, Status
from runner.render import html
from runner.render.files.allocations import write_files
from runner.store.location import StoreLocation, locate_store
from tests.conftest import Cli
from tests.factories import ALLOCATIONS, completed, failed, kept, sweep_of_nine
from tests.stores import LOCAL, Runs, make_anew
from tests.unit.render.known import make_known_run

pytestmark = pytest.mark.usefixtures("mlflow_imported")


def store_at(location: StoreLocation) -> Any:
    from runner.store.mlflow_store import open_store

    return open_store(location)


def contents(run: Any) -> dict[str, Any]:
    """All of a run that a reader can see."""
    return {
        "name": run.info.run_name,
        "status": run.info.status,
        "times": (run.info.start_time, run.info.end_time),
        "parameters": dict(run.data.params),
        "metrics": dict(run.data.metrics),
        "tags": dict(run.data.tags),
        "artifacts": sorted(
            (path.name, path.read_bytes()) for path in Path(run.info.artifact_uri).iterdir()
        ),
    }


def test_a_record_becomes_one_finished_run(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    record = completed()
    folder = kept(record, outputs / "runs" / "1")
    stored = store_at(location).publish(folder)
    (run,) = runs()
    assert run.info.run_id == stored.run_id
    assert run.info.status == "FINISHED"
    assert run.info.start_time == 1_735_732_800_250
    assert run.data.metrics["tensor_peak_bytes"] == record.metrics["tensor_peak_bytes"]
    assert run.data.params["scenario.iterations"] == "100"
    assert run.data.tags["record"] == record.id
    assert run.data.tags["cell"] == record.cell


def test_its_files_lie_in_the_outputs_and_equal_the_folder_s(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    store_at(location).publish(folder)
    (run,) = runs()
    artifacts = Path(run.info.artifact_uri)
    assert artifacts.is_relative_to(outputs / "artifacts")
    for name in ("record.json", "trials.jsonl", "config.yaml", "run.log"):
        assert (artifacts / name).read_bytes() == (folder / name).read_bytes()


def names(run: Any, below: str = "") -> set[str]:
    """Of the artifacts of a run that are files."""
    return {path.name for path in (Path(run.info.artifact_uri) / below).iterdir() if path.is_file()}


def test_what_lies_in_its_folder_is_with_it_and_the_folder_stays_as_it_was(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    folder = kept(make_known_run(), outputs / "runs" / "1")
    write_files(records.read(folder), folder)
    html.write_page(folder)
    before = sorted(folder.iterdir())
    store_at(location).publish(folder)
    (run,) = runs()
    assert names(run) - {"lines.json", "layers.json"} == {path.name for path in before}
    assert names(run) >= {"report.html", "timeline.json", "allocations.csv"}
    assert sorted(folder.iterdir()) == before


def publish_nine(store: Any, sweep: Path) -> None:
    for record in sweep_of_nine():
        assert record.sweep
        store.publish(kept(record, sweep / str(record.sweep.cell)))


def test_a_sweep_has_a_run_above_its_cells_with_its_files_and_its_table(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    store, sweep = store_at(location), outputs / "sweeps" / "s"
    publish_nine(store, sweep)
    html.write_page(sweep)
    (sweep / "table.csv").write_text("cell\n0\n")
    stored = store.publish_sweep(sweep)
    assert store.publish_sweep(sweep) == stored
    parents = Counter(run.data.tags.get("mlflow.parentRunId") for run in runs())
    assert parents == {stored.run_id: 9, None: 1}
    (above,) = [run for run in runs() if run.info.run_id == stored.run_id]
    assert (above.info.run_name, above.info.status) == ("sweep: scenario, batch_size", "FINISHED")
    assert names(above) == {"report.html", "table.csv"}
    note = above.data.tags["mlflow.note.content"]
    page = f"#/experiments/1/runs/{stored.run_id}/artifacts/report.html"
    assert note.startswith(f"[Report]({page}?workflowType=machine_learning) · **9 cells**")


def test_a_cell_s_note_begins_with_links_to_its_report_and_its_sweep(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    folder = kept(sweep_of_nine()[0], outputs / "sweeps" / "s" / "0")
    html.write_page(folder)
    stored = store_at(location).publish(folder)
    (cell,) = [run for run in runs() if run.info.run_id == stored.run_id]
    runs_page, words = "#/experiments/1/runs", "?workflowType=machine_learning"
    report = f"{runs_page}/{stored.run_id}/artifacts/report.html{words}"
    sweep = f"{runs_page}/{cell.data.tags['mlflow.parentRunId']}{words}"
    note = cell.data.tags["mlflow.note.content"]
    assert note.startswith(f"[Report]({report}) · [Sweep]({sweep}) · **Completed**")


def test_nobody_waits_for_the_end_of_a_sweep_that_never_came(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    publish_nine(store_at(location), outputs / "sweeps" / "s")
    statuses = Counter(run.info.status for run in runs())
    assert statuses == {"FINISHED": 8, "FAILED": 1, "SCHEDULED": 1}
    store_at(location)
    assert Counter(run.info.status for run in runs()) == statuses


def test_a_sweep_is_not_running_after_a_kill_between_its_run_and_its_status(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    from mlflow import MlflowClient

    folder = kept(sweep_of_nine()[0], outputs / "sweeps" / "s" / "0")
    store_at(location).publish(folder)
    (above,) = [run for run in runs() if run.info.status == "SCHEDULED"]
    MlflowClient(tracking_uri=location.uri).update_run(above.info.run_id, "RUNNING")
    store_at(location).publish(folder)
    assert sorted(run.info.status for run in runs()) == ["FINISHED", "SCHEDULED"]


def test_a_sweep_that_was_interrupted_is_killed_until_it_is_whole(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    store, sweep = store_at(location), outputs / "sweeps" / "s"
    first, second = sweep_of_nine()[:2]
    stopped = dataclasses.replace(second, outcome=Outcome(Status.INTERRUPTED))
    store.publish(kept(first, sweep / "0"))
    folder = kept(stopped, sweep / "1")
    for record, status in ((stopped, "KILLED"), (second, "FINISHED")):
        records.write(record, folder)
        store.publish(folder)
        stored = store.publish_sweep(sweep)
        statuses = {run.info.run_id: run.info.status for run in runs()}
        assert statuses.pop(stored.run_id) == status
        assert sorted(statuses.values()) == sorted(["FINISHED", status])


def test_what_an_older_version_stored_is_replaced_and_not_there_twice(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    """Its runs had other names of parameters and metrics, and a sweep had no run of its own."""
    from mlflow import MlflowClient

    store, sweep = store_at(location), outputs / "sweeps" / "s"
    client = MlflowClient(tracking_uri=location.uri)
    for record in sweep_of_nine():
        assert record.sweep
        folder = kept(record, sweep / str(record.sweep.cell))
        tags = {
            "record": record.id,
            "folder": str(folder),
            "content": "of an older version",
            "sweep": record.sweep.id,
            "number": f"{record.sweep.cell:05}",
        }
        run_id = client.create_run("1", tags=tags, run_name="python_loop graph").info.run_id
        client.log_metric(run_id, "memory/peak_MB", 5.16)
        client.log_param(run_id, "size", "100")
        client.set_terminated(run_id)
    for _ in range(2):
        for number in range(9):
            store.publish(sweep / str(number))
        store.publish_sweep(sweep)
        assert len(runs()) == 9 + 1
        assert not any("memory/peak_MB" in run.data.metrics for run in runs())


def test_every_run_says_who_stored_it_and_what_from(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    record = completed()
    git = GitState("0123abcd", dirty=False)
    environment = msgspec.structs.replace(record.environment, git=git)
    record = dataclasses.replace(record, environment=environment)
    store_at(location).publish(kept(record, outputs / "runs" / "1"))
    tags = runs()[0].data.tags
    assert tags["mlflow.user"] == getpass.getuser()
    assert tags["mlflow.source.name"] == "python -m runner"
    assert tags["mlflow.source.git.commit"] == "0123abcd"
    assert tags["mlflow.runName"] == "while_loop graph batch=32"


def test_the_lines_of_a_peak_are_a_table_that_mlflow_reads(
    location: StoreLocation, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", location.uri)  # which MLflow sets, for good
    before = mlflow.get_tracking_uri()
    record = dataclasses.replace(completed(), allocations=ALLOCATIONS)
    stored = store_at(location).publish(kept(record, outputs / "runs" / "1"))
    mlflow.set_tracking_uri(location.uri)  # as it looks for the run wherever that points to
    table = mlflow.MlflowClient().load_table("1", "lines.json", [stored.run_id], ["run_id"])
    mlflow.set_tracking_uri(before)
    assert list(table["line"]) == ["model.py:7", "no line"]
    assert list(table["bytes"]) == [870, 30]
    assert set(table["run_id"]) == {stored.run_id}


def test_a_sweep_of_which_the_store_has_no_cell_is_a_problem(
    location: StoreLocation, outputs: Path
) -> None:
    store, sweep = store_at(location), outputs / "sweeps" / "s"
    kept(sweep_of_nine()[0], sweep / "0")
    with pytest.raises(StoreError, match="no cell of that sweep is in the store"):
        store.publish_sweep(sweep)


def test_another_sweep_of_the_same_name_does_not_replace_its_report(
    location: StoreLocation, outputs: Path, tmp_path: Path, runs: Runs
) -> None:
    store, sweep, other = store_at(location), outputs / "sweeps" / "s", tmp_path / "theirs"
    mine = sweep_of_nine()[0]
    store.publish(kept(mine, sweep / "0"))
    (sweep / "report.html").write_text("mine")
    stored = store.publish_sweep(sweep)
    kept(dataclasses.replace(mine, metrics={"tensor_peak_bytes": 5}), other / "0")
    (other / "report.html").write_text("theirs")
    with pytest.raises(BadInput, match=f"with other content, of {sweep}"):
        store.publish_sweep(other)
    (above,) = [run for run in runs() if run.info.run_id == stored.run_id]
    assert (Path(above.info.artifact_uri) / "report.html").read_text() == "mine"


def test_a_failed_record_is_a_failed_run_with_its_reason(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    store_at(location).publish(kept(failed(reason="no room"), outputs / "runs" / "1"))
    (run,) = runs()
    assert run.info.status == "FAILED"
    assert run.data.tags["reason"] == "no room"
    assert run.data.tags["status"] == "out_of_memory"


def test_a_series_is_a_metric_s_history(location: StoreLocation, outputs: Path, runs: Runs) -> None:
    from mlflow import MlflowClient

    stored = store_at(location).publish(kept(completed(), outputs / "runs" / "1"))
    history = MlflowClient(tracking_uri=location.uri).get_metric_history(
        stored.run_id, "steps/tensor_live_MB"
    )
    assert [(point.step, point.value) for point in history] == [(i, 0.0528) for i in range(5)]


def test_published_twice_it_is_one_run_with_the_same_content(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    first = store_at(location).publish(folder)
    (before,) = runs()
    second = store_at(location).publish(folder)
    (after,) = runs()
    assert second == first
    assert contents(after) == contents(before)


def test_a_file_that_came_later_is_added_to_the_same_run(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    first = store_at(location).publish(folder)
    (folder / "peak.png").write_bytes(b"a picture")
    assert store_at(location).publish(folder) == first
    (run,) = runs()
    assert (Path(run.info.artifact_uri) / "peak.png").read_bytes() == b"a picture"


@pytest.fixture
def resumed(outputs: Path, location: StoreLocation) -> tuple[Path, Any]:
    """A record's folder whose figures are others than when it was stored, and what was stored."""
    folder = kept(completed(), outputs / "runs" / "1")
    first = store_at(location).publish(folder)
    shutil.rmtree(folder)
    kept(dataclasses.replace(completed(), metrics={"tensor_peak_bytes": 5}), folder)
    return folder, first


def test_a_record_with_other_figures_replaces_its_run(
    location: StoreLocation, runs: Runs, resumed: tuple[Path, Any]
) -> None:
    folder, first = resumed
    second = store_at(location).publish(folder)
    (run,) = runs()
    assert run.info.run_id == second.run_id != first.run_id
    assert run.info.status == "FINISHED"
    assert run.data.metrics["tensor_peak_bytes"] == 5
    assert "graph_nodes" not in run.data.metrics


@pytest.mark.parametrize("act", ["log_batch", "log_artifact", "get_run"])
def test_a_run_is_replaced_when_the_new_one_is_whole_and_not_before(
    act: str,
    location: StoreLocation,
    runs: Runs,
    resumed: tuple[Path, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

    folder, first = resumed
    store = store_at(location)

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    owner: Any = LocalArtifactRepository if act == "log_artifact" else store._client
    with monkeypatch.context() as broken:
        broken.setattr(owner, act, fail)
        with pytest.raises(StoreError, match="Input/output error"):
            store.publish(folder)
    (run,) = runs()
    assert (run.info.run_id, run.info.status) == (first.run_id, "FINISHED")
    assert run.data.metrics["graph_nodes"] == 57
    assert store.publish(folder).run_id != first.run_id
    assert [run.info.status for run in runs()] == ["FINISHED"]


def test_a_run_that_was_written_but_has_not_replaced_the_other_yet_does_so_next_time(
    location: StoreLocation, runs: Runs, resumed: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, first = resumed
    store = store_at(location)

    def killed(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store._client, "delete_run", killed)
    with pytest.raises(KeyboardInterrupt):
        store.publish(folder)
    assert sorted(run.info.status for run in runs()) == ["FINISHED", "RUNNING"]
    store_at(location)
    (run,) = runs()
    assert run.info.status == "FINISHED"
    assert run.info.run_id != first.run_id


def test_another_folder_s_record_of_the_same_id_is_refused_with_both_named(
    location: StoreLocation, outputs: Path, tmp_path: Path, runs: Runs
) -> None:
    store = store_at(location)
    good = kept(completed(), outputs / "runs" / "1")
    stored = store.publish(good)
    before = contents(runs()[0])
    odd = {"tensor_peak_bytes": 5, "no, metric=": 1.0}
    other = kept(dataclasses.replace(completed(), metrics=odd), tmp_path / "other")
    with pytest.raises(BadInput) as refused:
        store.publish(other)
    assert f"{other}: the store has a run with its id" in refused.value.problem
    assert f"{stored.run_id}, of {good}" in refused.value.problem
    assert [contents(run) for run in runs()] == [before]
    store.remove(completed().id)
    with pytest.raises(StoreError):  # MLflow takes no metric of such a name
        store.publish(other)
    assert runs() == [], "nothing is left RUNNING"


def test_a_copy_of_a_record_is_the_same_run(
    location: StoreLocation, outputs: Path, tmp_path: Path, runs: Runs
) -> None:
    stored = store_at(location).publish(kept(completed(), outputs / "runs" / "1"))
    copy = shutil.copytree(outputs / "runs" / "1", tmp_path / "copy")
    assert store_at(location).publish(copy) == stored
    assert len(runs()) == 1


def test_a_record_s_older_view_is_replaced_from_its_own_folder(
    location: StoreLocation, outputs: Path, tmp_path: Path, runs: Runs
) -> None:
    from mlflow import MlflowClient

    folder = kept(completed(), outputs / "runs" / "1")
    first = store_at(location).publish(folder)
    MlflowClient(location.uri).set_tag(first.run_id, "content", "of another version")
    with pytest.raises(BadInput, match="other content"):
        store_at(location).publish(shutil.copytree(folder, tmp_path / "copy"))
    second = store_at(location).publish(folder)
    (run,) = runs()
    assert run.info.run_id == second.run_id != first.run_id


@pytest.mark.parametrize("name", ["x' OR tags.record != '", "a\"b'c"])
def test_a_name_with_quotes_is_a_name_or_refused(
    name: str, location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    store = store_at(location)
    store.publish(kept(completed(), outputs / "runs" / "1"))
    folder = kept(completed(name), outputs / "runs" / "2")
    if '"' in name:
        with pytest.raises(BadInput, match="is not the name of a record"):
            store.publish(folder)
    else:
        store.publish(folder)
        assert {run.data.tags["record"] for run in runs()} == {completed().id, name}


def test_a_run_that_a_killed_publisher_left_is_completed_when_the_store_is_next_used(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    from mlflow import MlflowClient

    folder = kept(completed(), outputs / "runs" / "1")
    store_at(location)
    client = MlflowClient(tracking_uri=location.uri)
    experiment = client.get_experiment_by_name("runner").experiment_id
    other = client.create_run(experiment, run_name="somebody else's").info.run_id
    digest = tracking_digest(folder)
    tags = {"record": completed().id, "folder": str(folder), "content": digest}
    cut = client.create_run(experiment, tags=tags).info.run_id
    store_at(location)
    statuses = {run.info.run_id: run.info.status for run in runs()}
    assert statuses == {other: "RUNNING", cut: "FINISHED"}


def test_a_run_cut_short_whose_record_is_unreadable_now_is_no_obstacle(
    location: StoreLocation, outputs: Path
) -> None:
    from mlflow import MlflowClient

    folder = kept(completed(), outputs / "runs" / "1")
    (folder / "record.json").write_text("{")
    store_at(location)
    client = MlflowClient(tracking_uri=location.uri)
    experiment = client.get_experiment_by_name("runner").experiment_id
    client.create_run(experiment, tags={"record": completed().id, "folder": str(folder)})
    store_at(location)


def test_what_somebody_else_planted_in_the_store_takes_no_file_of_ours(
    location: StoreLocation, outputs: Path, tmp_path: Path, runs: Runs
) -> None:
    from mlflow import MlflowClient

    record = completed()
    elsewhere = kept(record, tmp_path / "private")
    (elsewhere / "secret.log").write_text("hush")
    another = kept(record, outputs / "runs" / "1")
    link = outputs / "runs" / "2"
    link.symlink_to(elsewhere)
    store_at(location)
    client = MlflowClient(tracking_uri=location.uri)
    experiment = client.get_experiment_by_name("runner").experiment_id
    for tags in (
        {"record": record.id, "folder": str(elsewhere)},
        {"record": record.id, "folder": str(outputs / "runs" / ".." / ".." / "private")},
        {"record": record.id, "folder": str(link)},
        {"record": "of another run", "folder": str(another)},
        {"record": record.id, "folder": "\0"},
        {"record": record.id},
    ):
        client.create_run(experiment, tags=tags)
    store_at(location)
    assert all(run.info.status == "RUNNING" for run in runs())
    assert not any(Path(run.info.artifact_uri).exists() for run in runs())


def test_outputs_that_were_moved_take_their_files_along(tmp_path: Path, runs: Runs) -> None:
    from mlflow import MlflowClient

    before, now = tmp_path / "before", tmp_path / "now"
    location = locate_store(LOCAL, before)
    store_at(location).publish(kept(completed("first"), before / "runs" / "1"))
    before.rename(now)
    location = locate_store(LOCAL, now)
    moved = store_at(location)
    moved.publish(kept(completed("second"), now / "runs" / "2"))
    assert not before.exists()
    for run in runs(location.uri):
        assert Path(run.info.artifact_uri).is_relative_to(now / "artifacts")
        assert (Path(run.info.artifact_uri) / "record.json").exists()
    client = MlflowClient(tracking_uri=location.uri)
    assert client.get_experiment_by_name("runner").artifact_location == str(now / "artifacts")
    assert len(moved.remove("first")) == 1
    assert len(list((now / "artifacts").iterdir())) == 1


def tracking_digest(folder: Path) -> str:
    from runner.store.content import describe_record

    return describe_record(completed(), folder).digest


def test_a_fresh_store_has_exactly_the_schema_that_mlflow_makes(
    location: StoreLocation, tmp_path: Path
) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    make_anew(location)
    store_at(location)
    plain = tmp_path / "plain.db"
    SqlAlchemyStore(f"sqlite:///{plain}", str(tmp_path / "artifacts"))

    def schema(path: str) -> dict[str, list[tuple[Any, ...]]]:
        """Columns and indices of every table; the order of a table's constraints is by chance."""
        with closing(sqlite3.connect(path)) as database:
            names = database.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
            columns = {
                name: database.execute(f"PRAGMA table_info({name})").fetchall()
                for kind, name, _ in names
                if kind == "table"
            }
            version = database.execute("SELECT * FROM alembic_version").fetchall()
            return {**columns, "names": sorted(names), "version": version}

    assert schema(str(location.database)) == schema(str(plain))


def test_a_first_use_that_was_killed_leaves_nothing_behind(
    location: StoreLocation, outputs: Path
) -> None:
    make_anew(location)
    (outputs / ".mlflow.db.12345").write_bytes(b"half a database")
    store_at(location)
    assert sorted(path.name for path in outputs.iterdir()) == [".mlflow.lock", "mlflow.db"]


def test_an_experiment_in_the_trash_is_a_problem_that_says_so(location: StoreLocation) -> None:
    from mlflow import MlflowClient

    store_at(location)
    client = MlflowClient(tracking_uri=location.uri)
    client.delete_experiment(client.get_experiment_by_name("runner").experiment_id)
    with pytest.raises(StoreError, match="'runner' is in MLflow's trash"):
        store_at(location)


def test_an_answer_without_an_experiment_is_no_trash(
    location: StoreLocation, free_port: int, outputs: Path
) -> None:
    class Null(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"experiment": null}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", free_port), Null) as server:
        threading.Thread(target=server.serve_forever).start()
        choice = Tracking("server", f"http://127.0.0.1:{free_port}", "runner")
        with pytest.raises(StoreError) as raised:
            store_at(locate_store(choice, outputs))
        server.shutdown()
    assert "names no experiment 'runner'" in raised.value.problem
    assert "trash" not in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [("ffffffffffff", "was made by a newer MLflow"), ("0584bdc529eb", "out-of-date")],
    ids=["newer", "older"],
)
def test_another_mlflow_s_store_is_older_or_newer_as_it_is(
    schema: str, words: str, location: StoreLocation, outputs: Path, cli: Cli
) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    store_at(location)
    with closing(sqlite3.connect(str(location.database))) as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (schema,))
        database.commit()
    done = cli("publish", str(folder))  # which opens it anew, as MLflow keeps open stores
    assert done.returncode == 1
    assert words in done.stderr
    assert ("out-of-date" in done.stderr) == (words == "out-of-date")


def test_limits_are_mlflow_s_own() -> None:
    from mlflow.utils import validation

    from runner.store import content

    assert content.LONGEST_PARAMETER == validation.MAX_PARAM_VAL_LENGTH
    assert content.LONGEST_TAG == validation.MAX_TAG_VAL_LENGTH


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            lambda file: file.write_bytes(b"no database at all, but long enough" * 9),
            "not a database",
        ),
        (lambda file: file.mkdir(), "unable to open database file"),
    ],
    ids=["corrupt", "a folder"],
)
def test_a_spoilt_store_is_a_problem_that_names_it(
    location: StoreLocation, outputs: Path, spoil: Any, reason: str
) -> None:
    make_anew(location)
    spoil(outputs / "mlflow.db")
    with pytest.raises(StoreError, match=reason) as problem:
        store_at(location)
    assert str(outputs / "mlflow.db") in problem.value.problem


def test_each_sweep_has_a_view_and_the_oldest_ones_go(location: StoreLocation) -> None:
    from mlflow import MlflowClient

    from runner.store.views import MOST_VIEWS

    store = store_at(location)
    links = [store.save_view(f"2025-01-{number:03}") for number in range(MOST_VIEWS + 3)]
    assert len({link.runs for link in links}) == MOST_VIEWS + 3
    tags = MlflowClient(tracking_uri=location.uri).get_experiment_by_name("runner").tags
    assert len(tags) == MOST_VIEWS
    keys = [name.removeprefix("mlflow.sharedViewState.") for name in tags]
    assert not any(key in links[0].runs for key in keys)
    assert any(key in links[-1].runs for key in keys)


def test_publish_brings_a_whole_sweep_in_with_a_line_each(
    front_door: Cli, outputs: Path, location: StoreLocation, runs: Runs
) -> None:
    for record in sweep_of_nine():
        kept(record, outputs / "sweeps" / "s" / str(record.sweep.cell if record.sweep else 0))
    done = front_door("publish", str(outputs / "sweeps" / "s"))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 9 + 1
    assert "s: report  http://" in done.stdout.splitlines()[-1]
    assert done.stderr == ""
    sweeps = Counter(run.data.tags.get("sweep") for run in runs())
    assert sweeps == {"2025-01-01-13-00-00-ab12": 9, None: 1}


def test_publish_writes_a_page_where_there_is_none_or_an_older_one(
    front_door: Cli, outputs: Path, runs: Runs
) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    page = folder / "report.html"
    assert front_door("publish", str(folder)).returncode == 0
    assert "78.4 kB" in page.read_text()
    (run,) = runs()
    assert (Path(run.info.artifact_uri) / "report.html").read_text() == page.read_text()
    page.write_text("of an earlier record")
    os.utime(page, (0, 0))
    assert front_door("publish", str(folder)).returncode == 0
    assert "78.4 kB" in page.read_text()


def test_a_record_without_a_page_is_stored_all_the_same(
    front_door: Cli, outputs: Path, runs: Runs
) -> None:
    folder = kept(completed(), outputs / "runs" / "1")
    (folder / "report.html").mkdir()
    os.utime(folder / "report.html", (0, 0))
    done = front_door("publish", str(folder))
    assert done.returncode == 0
    assert "report.html: can't be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert "report.html" not in names(runs()[0])


def test_publish_of_all_outputs_takes_each_record_once(
    front_door: Cli, outputs: Path, location: StoreLocation, runs: Runs
) -> None:
    kept(completed("one"), outputs / "runs" / "1")
    kept(failed("two"), outputs / "runs" / "2")
    assert front_door("publish", str(outputs)).returncode == 0
    again = front_door("publish", str(outputs))
    assert len(again.stdout.splitlines()) == 2
    assert {run.data.tags["folder"] for run in runs()} == {
        str(outputs / "runs" / "1"),
        str(outputs / "runs" / "2"),
    }


def test_an_odd_name_of_the_outputs_is_no_obstacle(tmp_path: Path, runs: Runs) -> None:
    outputs = tmp_path / "out puts é 100% #1?"
    outputs.mkdir()
    location = locate_store(LOCAL, outputs)
    store_at(location).publish(kept(completed(), outputs / "runs" / "1"))
    (run,) = runs(location.uri)
    assert (Path(unquote(run.info.artifact_uri)) / "record.json").exists()


def test_publish_of_a_record_that_can_t_be_read_goes_on_and_ends_with_1(
    front_door: Cli, outputs: Path, location: StoreLocation, runs: Runs
) -> None:
    kept(completed("good"), outputs / "runs" / "1")
    kept(completed("bad"), outputs / "runs" / "0")
    (outputs / "runs" / "0" / "record.json").write_text("{")
    done = front_door("publish", "--json", str(outputs / "runs"))
    assert done.returncode == 1
    assert [run.data.tags["record"] for run in runs()] == ["good"]
    assert '"problem": null' in done.stdout
    assert "is not a valid record" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["publish", "nowhere"],
        ["publish", "tracking=local"],
        ["publish", "runs", "tracking=lokal"],
        ["publish", "runs", "tracking=none"],
        ["publish", "runs", "tracking=server", "tracking.uri=ftp://somewhere"],
        ["publish", "runs", "tracking.port=7"],
    ],
    ids=" ".join,
)
def test_publish_refuses_what_it_can_t_do_and_writes_nothing(
    front_door: Cli, outputs: Path, words: list[str]
) -> None:
    kept(completed(), outputs / "runs" / "1")
    done = front_door(*words, cwd=outputs)
    assert done.returncode == 2
    assert done.stderr.startswith("runner: ")
    assert "Traceback" not in done.stderr
    assert not (outputs / "mlflow.db").exists()
