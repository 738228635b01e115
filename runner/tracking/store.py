"""The tracking store, from MLflow's side: one MLflow run a record, found again by the record's id.

Imported only where MLflow may be: in the background process, and in the verbs `publish` and `ui`.
MLflow's errors, and those of SQLite and HTTP beneath it, are translated here into `StoreError`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import requests
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from sqlalchemy import Engine, event
from sqlalchemy.exc import SQLAlchemyError

from runner import records, report
from runner.errors import BadInput, RunnerError, StoreError, StoreOutOfReach
from runner.records import RECORD_FILE
from runner.report import PEAK_PICTURE
from runner.tracking import Links, Place, TrackedRun, sqlite_uri, views
from runner.tracking.content import SWEEP_ARTIFACTS, Content, artifacts, describe

_DIGEST = "content"
"""A tag with the digest of a run's parameters and metrics, which MLflow can't overwrite."""


class Store:
    """One MLflow store and the experiment in it. `prepare` first.

    `lock_seconds` is how long to wait for an embedded store that somebody else is writing to.
    """

    def __init__(self, place: Place, lock_seconds: float) -> None:
        self._place = place
        self._lock_seconds = lock_seconds
        self._client: Any = None
        self._experiment = ""

    def prepare(self) -> dict[str, Any]:
        """Make the store where it is not there yet, and end what was left half done."""
        with self._translated():
            if self._place.database:
                with _first_use(self._place.database.parent):
                    self._create(self._place.database)
                    self._check_file()
                    self._connect()
            else:
                self._connect()
            self._complete_what_was_cut_short()
        return {}

    def publish(self, folder: Path) -> TrackedRun:
        """Bring the record in `folder` in: once, however often and by however many it is asked."""
        with self._translated(), (folder / RECORD_FILE).open() as file:
            # Two publishers of one record take turns; other records go on beside it.
            fcntl.flock(file, fcntl.LOCK_EX)
            self._check_file()
            record = records.read(folder)
            content = describe(record, folder)
            run = self._newest(f"tags.record = '{record.id}'")
            if run is not None and run.data.tags.get(_DIGEST) != content.digest:
                self._client.delete_run(run.info.run_id)
                run = None
            identity = self._write(content, run)
            for path in artifacts(folder):
                self._client.log_artifact(identity, str(path))
            # Of the same record there are the same pictures: once is enough.
            if all(each.path != PEAK_PICTURE for each in self._client.list_artifacts(identity)):
                self._attach(identity, None, folder, report.pictures)
            self._client.set_terminated(identity, content.status, content.ended_ms)
        return self._tracked(identity)

    def publish_sweep(self, folder: Path) -> TrackedRun:
        """Add the report and the pictures of the sweep in `folder` to the run of its first cell: a
        run of their own would be a row in the table that is no cell."""
        with self._translated():
            self._check_file()
            sweep = records.read_brief(records.find(folder)[0]).sweep or {}
            first = self._first(f"tags.sweep = '{sweep.get('id')}'", "tags.number ASC")
            if first is None:
                raise StoreError(f"{folder}: no cell of that sweep is in the store", "Publish it.")
            identity = str(first.info.run_id)
            self._attach(identity, SWEEP_ARTIFACTS, folder, report.write)
            self._attach(identity, SWEEP_ARTIFACTS, folder, report.pictures)
        return self._tracked(identity)

    def _attach(
        self, identity: str, under: str | None, folder: Path, make: Callable[[Path, Path], object]
    ) -> None:
        """Add to a run the files that `make` makes of `folder`, which itself stays as it is. A
        record that can't be drawn is none the less in the store."""
        with tempfile.TemporaryDirectory() as scratch:
            try:
                make(folder, Path(scratch))
            except Exception:
                traceback.print_exc()  # into the log
            for path in sorted(Path(scratch).iterdir()):
                self._client.log_artifact(identity, str(path), under)

    def _tracked(self, identity: str) -> TrackedRun:
        page = views.run_page(self._place.pages, self._experiment, identity)
        return TrackedRun(identity, self._experiment, page)

    def links(self, sweep: str | None) -> Links:
        """Pages of a sweep, or of all runs; saves the view that they open."""
        with self._translated():
            newest = self._newest(f"tags.sweep = '{sweep}'") if sweep else None
            swept = newest.data.tags.get("swept", "").split() if newest else []
            key = views.view_key(sweep)
            self._save_view(key, views.view_tag(sweep, swept))
        pages, experiment = self._place.pages, self._experiment
        return Links(
            runs=views.runs_page(pages, experiment, key),
            comparison=views.comparison_page(pages, experiment, key),
        )

    def newest_sweep(self) -> str | None:
        with self._translated():
            newest = self._newest("tags.sweep LIKE '%'")
        return newest.data.tags["sweep"] if newest else None

    def remove(self, name: str) -> int:
        """Delete the MLflow runs of the run or the sweep `name`, those in MLflow's trash as well;
        how many there were to see. An embedded store keeps nothing of them, a server has them in
        its trash."""
        with self._translated():
            found = [
                run
                for experiment in self._client.search_experiments(ViewType.ALL)
                for run in self._all(experiment.experiment_id, f"tags.record LIKE '{name}%'")
            ]
            seen = [run.info.run_id for run in found if run.info.lifecycle_stage == "active"]
            for run in seen:
                self._client.delete_run(run)
            if self._place.database and self._place.artifacts:
                database = SqlAlchemyStore(self._place.uri, self._place.artifacts)
                for run in found:
                    shutil.rmtree(Path(self._place.artifacts) / run.info.run_id, ignore_errors=True)
                    database._hard_delete_run(run.info.run_id)  # as `mlflow gc` does
                database.engine.dispose()
        return len(seen)

    def _all(self, experiment: str, condition: str) -> Iterator[Any]:
        """Every run, whatever became of it, page by page."""
        page: str | None = ""
        while page is not None:
            some = self._client.search_runs(
                [experiment], condition, ViewType.ALL, page_token=page or None
            )
            yield from some
            page = some.token or None

    def _save_view(self, key: str, value: str) -> None:
        """Save the view, and delete the oldest of ours that nobody can want in a list so long."""
        self._client.set_experiment_tag(self._experiment, views.TAG + key, value)
        tags = self._client.get_experiment(self._experiment).tags
        for old in views.too_many(tags):
            self._client.delete_experiment_tag(self._experiment, old)

    def _newest(self, condition: str) -> Any | None:
        return self._first(condition, "attributes.start_time DESC")

    def _first(self, condition: str, order: str) -> Any | None:
        found = self._client.search_runs(
            [self._experiment], condition, max_results=1, order_by=[order]
        )
        return found[0] if found else None

    def _write(self, content: Content, run: Any | None) -> str:
        """Everything but artifacts and the end; returns the run's id."""
        tags = [RunTag(name, value) for name, value in content.tags.items()]
        if run is not None and run.info.status != "RUNNING":
            self._client.log_batch(run.info.run_id, tags=tags)
            return str(run.info.run_id)
        if run is None:
            run = self._client.create_run(
                self._experiment,
                start_time=content.started_ms,
                run_name=content.name,
                tags={
                    "record": content.tags["record"],
                    "folder": content.tags["folder"],
                    _DIGEST: content.digest,
                },
            )
        self._client.log_batch(
            run.info.run_id,
            metrics=[
                Metric(point.name, point.value, content.started_ms + point.step, point.step)
                for point in content.points
            ],
            params=[Param(name, value) for name, value in content.parameters.items()],
            tags=tags,
        )
        return str(run.info.run_id)

    def _check_file(self) -> None:
        """Ask SQLite whether the file can be written: it says why not, and at once. MLflow would
        try again for minutes, whatever the reason."""
        if self._place.database:
            with closing(sqlite3.connect(self._place.database, self._lock_seconds)) as database:
                database.execute("BEGIN IMMEDIATE")

    def _connect(self) -> None:
        self._client = MlflowClient(tracking_uri=self._place.uri)
        self._experiment = self._find_experiment()

    def _find_experiment(self) -> str:
        name = self._place.experiment
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name, self._place.artifacts))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self._client.get_experiment_by_name(name)
        if found.lifecycle_stage != "active":
            raise StoreError(
                f"{self._place.where}: the experiment {name!r} is in MLflow's trash",
                "Restore it there, or say tracking.experiment=NAME.",
            )
        if self._place.database and self._place.artifacts:
            self._follow(found.artifact_location, self._place.artifacts)
        return str(found.experiment_id)

    def _follow(self, before: str, now: str) -> None:
        """The outputs may have been moved to another place; the store has whole paths."""
        if before != now and self._place.database:
            with closing(sqlite3.connect(self._place.database, self._lock_seconds)) as database:
                for table, column in (
                    ("experiments", "artifact_location"),
                    ("runs", "artifact_uri"),
                ):
                    database.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                        f"WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                        (now, len(before) + 1, before, len(before) + 1, f"{before}/"),
                    )
                database.commit()

    def _create(self, database: Path) -> None:
        """MLflow's own first use, under another name: a kill in the midst of it leaves nothing."""
        for left in database.parent.glob(f".{database.name}.*"):
            left.unlink()
        if not database.exists():
            scratch = database.with_name(f".{database.name}.{os.getpid()}")
            with _without_syncs():
                SqlAlchemyStore(sqlite_uri(scratch), self._place.artifacts).engine.dispose()
            with scratch.open("rb") as file:
                os.fsync(file.fileno())
            scratch.replace(database)

    def _complete_what_was_cut_short(self) -> None:
        """A publisher that was killed left its run RUNNING; its record is still there. Others write
        to a shared store as well, and what a tag of theirs names is not ours to read: only a
        folder of these outputs that holds a record of that very id."""
        running = self._client.search_runs(
            [self._experiment], "attributes.status = 'RUNNING'", ViewType.ACTIVE_ONLY
        )
        for run in running:
            with suppress(BadInput, OSError, ValueError):  # what can't be read is no obstacle
                folder = Path(run.data.tags.get("folder") or "/").resolve()
                if folder.is_relative_to(self._place.outputs) and records.read_brief(
                    folder
                ).id == run.data.tags.get("record"):
                    self.publish(folder)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except RunnerError:
            raise
        except (MlflowException, SQLAlchemyError, sqlite3.Error, OSError) as error:
            reason = _reason(error)
            kind = StoreOutOfReach if reason == _SILENT else StoreError
            raise kind(f"{self._place.where}: {reason}") from error


def open_quietly(place: Place) -> Store:
    """For a verb, whose terminal is no place for MLflow's own words. Raises `StoreError`."""
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)
    if place.database:
        place.database.parent.mkdir(parents=True, exist_ok=True)
    store = Store(place, lock_seconds=20.0)
    store.prepare()
    return store


@contextmanager
def _first_use(folder: Path) -> Iterator[None]:
    """One process at a time: MLflow's migrations break a store that two of them migrate at once."""
    with (folder / ".mlflow.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _without_syncs() -> Iterator[None]:
    """For a file that nobody else has: fifty migrations, each synced, take up to 5 s on a busy
    disk; half a second if it is synced once, at the end."""

    def trust_the_system(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", trust_the_system)
    try:
        yield
    finally:
        event.remove(Engine, "connect", trust_the_system)


_SILENT = "the server does not answer"


def _reason(error: BaseException) -> str:
    """The first cause that says what is wrong with the world, in a line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, sqlite3.Error):
            return str(cause)
        if isinstance(cause, requests.ConnectionError | requests.Timeout):
            return _SILENT
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.filename}: {cause.strerror}" if cause.filename else cause.strerror
        cause = cause.__cause__ or cause.__context__
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
