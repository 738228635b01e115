"""One MLflow run a record, found again by the record's id.

Imported only where MLflow may be: in the worker process, and in the verbs `publish`, `ui`, `clean`.
Errors of MLflow, and of SQLite and HTTP beneath it, become `StoreError` here.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repo import ArtifactRepository
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore, sqlalchemy
from mlflow.tracking.context.default_context import DefaultRunContext
from mlflow.utils.mlflow_tags import (
    MLFLOW_PARENT_RUN_ID,
    MLFLOW_RUN_NOTE,
    MLFLOW_USER,
)
from mlflow.utils.rest_utils import requests

from runner import records
from runner.cell import PLAN_FILE
from runner.errors import BadInput, RunnerError, StoreError, StoreOutOfReach, get_first_line
from runner.records import RECORD_FILE, Record, Status, SweepPlace
from runner.render.files.note import write_sweep_note
from runner.render.html import REPORT_FILE
from runner.store import views
from runner.store.content import (
    LONGEST_TAG,
    SOURCE,
    STARTED,
    RunContent,
    describe_record,
    find_kind,
    find_start,
    list_artifacts,
    name_parent,
    write_time,
)
from runner.store.location import Links, StoredRun, StoreLocation, make_sqlite_uri

_MIGRATIONS = Path(mlflow.__file__).parent / "store" / "db_migrations" / "versions"
_DIGEST = "content"
"""A tag with the digest of a run's record."""
_REMOTE = frozenset(
    (
        *("mlflow-artifacts", "http", "https", "s3", "r2", "b2", "gs", "wasbs", "abfss"),
        *("hdfs", "viewfs", "ftp", "sftp"),
    )
)
"""Schemes of addresses that lead to no folder of this machine. `runs` and `models` lead to
whatever the server answers next."""
_USER = {MLFLOW_USER: str(DefaultRunContext().tags()[MLFLOW_USER])}
"""The user's name, as every client of MLflow tells it."""
_LOG = logging.getLogger(__name__)


class MlflowStore:
    """One MLflow store and the experiment in it. Call `prepare` first."""

    def __init__(self, location: StoreLocation, lock_seconds: float) -> None:
        self._location = location
        self._lock_seconds = lock_seconds
        self._client: Any = None
        self._experiment = ""
        self._parents: dict[Path, str] = {}

    def prepare(self) -> None:
        """Make the store where it is not there yet, and complete what was cut short."""
        with self._translate_errors():
            database = self._location.database
            with _lock_first_use(database.parent) if database else nullcontext():
                if database:
                    self._create(database)
                    self._check_file()
                self._client = MlflowClient(tracking_uri=self._location.uri)
                self._experiment = self._find_experiment()
            self._complete_runs()

    def publish(self, folder: Path) -> StoredRun:
        """Bring in the record in `folder`; asked again, by anybody, there is still one run.

        A run that is there is only changed from the folder that it came from: a copy of the same
        record changes nothing, and one with other content raises `BadInput`. A record of the same
        id and place with other content, as of a cell that was resumed, takes the place of the run.
        """
        with self._translate_errors(), (folder / RECORD_FILE).open() as file:
            # Two publishers of one record take turns; other records go on beside it.
            fcntl.flock(file, fcntl.LOCK_EX)
            self._check_file()
            record = records.read(folder)
            content = describe_record(record, folder)
            known = self._find_runs(f"tags.record = {_quote(record.id)}")
            copied = next((run for run in known if _is_copied(run, content)), None)
            if copied is not None:
                return self._location.make_stored_run(self._experiment, copied.info.run_id)
            parent = self._find_parent(record, folder.resolve().parent) if record.sweep else None
            run_id = self._write_run(content, folder, known, parent)
            self._client.set_terminated(run_id, content.status, content.ended_ms)
        return self._location.make_stored_run(self._experiment, run_id)

    def publish_sweep(self, folder: Path) -> StoredRun:
        """Complete the run above those of a sweep's cells, its table and files; save its view."""
        with self._translate_errors():
            self._check_file()
            readable, _ = records.read_each(records.find(folder), _read_without_allocations)
            ended = round(1000 * max((at / RECORD_FILE).stat().st_mtime for at, _ in readable))
            cells = [record for _, record in readable if record.sweep]
            name = cells[0].sweep.id if cells and cells[0].sweep else ""
            first = self._find_first(f"tags.sweep = {_quote(name)}", order="tags.number ASC")
            if first is None:
                raise StoreError(f"{folder}: no cell of that sweep is in the store", "Publish it.")
            stored = Path(first.data.tags.get("folder", "")).parent
            if stored != folder.resolve() and not self._is_same_record(first, folder):
                raise BadInput(  # somebody else's sweep may have the name of ours
                    f"{folder}: the store has a sweep of that name with other content, of {stored}",
                    "Nothing was changed. If this is the right one, delete those runs in MLflow.",
                )
            run = self._client.get_run(self._find_parent(cells[0], stored))
            if stored == folder.resolve():
                note = self._write_links(run, folder) + write_sweep_note(cells)
                # MLflow's page shows no note of a run that has no metric.
                count = Metric("cells", len(cells), ended, 0)
                tags = {MLFLOW_RUN_NOTE: note, STARTED: write_time(ended)}  # above its cells
                self._client.log_batch(run.info.run_id, [count], tags=_list_tags(tags))
                self._attach_files(run, folder)
                stopped = any(cell.outcome.status is Status.INTERRUPTED for cell in cells)
                status = "KILLED" if stopped else "FINISHED"
                self._client.set_terminated(run.info.run_id, status, ended)
        whole = self._location.make_stored_run(self._experiment, run.info.run_id)
        if find_kind(folder) != "sweep":  # its cells are no alternatives
            return whole
        return replace(whole, view=self.save_view(name))

    def save_view(self, sweep: str | None) -> Links:
        """Save the view of a sweep, or of all runs, and return its pages."""
        with self._translate_errors():
            newest = self._find_first(f"tags.sweep = {_quote(sweep)}") if sweep else None
            swept = newest.data.tags.get("swept", "").split() if newest else []
            values = {field: newest.data.params.get(field, "") for field in swept} if newest else {}
            name = newest.info.run_name if newest else ""
            key, value = views.make_view_key(sweep), views.make_view_tag(sweep, values, name)
            self._client.set_experiment_tag(self._experiment, views.TAG + key, value)
            tags = self._client.get_experiment(self._experiment).tags
            for old in views.find_surplus_views(tags):
                self._client.delete_experiment_tag(self._experiment, old)
        return self._location.make_links(self._experiment, key)

    def find_newest_sweep(self) -> str | None:
        """Return the id of the sweep that began last."""
        with self._translate_errors():
            newest = self._find_first("tags.sweep LIKE '%'")
        return newest.data.tags["sweep"] if newest else None

    def list_experiments(self) -> list[str]:
        """Return the names of the experiments that have records, this one first."""
        with self._translate_errors():
            experiments = self._client.search_experiments()
            names = {
                experiment.name: None
                for experiment in experiments
                if self._find_first("tags.record LIKE '%'", experiment.experiment_id)
            }
        return list({self._location.experiment: None, **names})

    def list_runs(self, name: str) -> list[str]:
        """Return the ids of the runs of the run or the sweep `name`, those that can be seen."""
        with self._translate_errors():
            return [run.info.run_id for run in self._find_everywhere(name) if _is_active(run)]

    def remove(self, name: str) -> list[str]:
        """Delete the runs of the run or the sweep `name`; return the ids of those that were seen.

        An embedded store keeps nothing of them, not in its trash either; a server has them there.
        """
        with self._translate_errors():
            runs = self._find_everywhere(name)
            seen = [run.info.run_id for run in runs if _is_active(run)]
            for run_id in seen:
                self._client.delete_run(run_id)
            if artifacts := self._location.artifacts:
                database = SqlAlchemyStore(self._location.uri, self._location.artifact_address)
                for run in runs:
                    with suppress(FileNotFoundError):
                        shutil.rmtree(Path(artifacts) / run.info.run_id)
                    database._hard_delete_run(run.info.run_id)  # as `mlflow gc` does
                database.engine.dispose()
        return seen

    def _find_everywhere(self, name: str) -> list[Any]:
        """Return the runs of the run or the sweep `name`, of all experiments and of the trash."""
        condition = f"tags.record LIKE {_quote(name + '%')}"
        return [
            run
            for experiment in self._client.search_experiments(ViewType.ALL)
            for run in self._find_runs(condition, experiment.experiment_id, ViewType.ALL)
            if re.fullmatch(r"[0-9a-f]{32}", run.info.run_id)  # else it may be a path
        ]

    def _find_parent(self, record: Record, sweep: Path) -> str:
        """Return the run that stands above those of a sweep's cells; it is made with the first."""
        assert record.sweep is not None
        if sweep in self._parents:
            return self._parents[sweep]
        with ExitStack() as turn:
            with suppress(FileNotFoundError):  # two publishers of one sweep take turns
                fcntl.flock(turn.enter_context((sweep / PLAN_FILE).open()), fcntl.LOCK_EX)
            known = self._find_runs(f"tags.record = {_quote(record.sweep.id)}")
            parents = [run for run in known if run.data.tags.get("folder") == str(sweep)]
            run = parents[0] if parents else self._create_parent(record, record.sweep, sweep)
            if run.info.status == "RUNNING":  # new, or a publisher was killed before this line
                # Nobody completes it but the end of the sweep, which may never come.
                self._client.update_run(run.info.run_id, "SCHEDULED")
        self._parents[sweep] = str(run.info.run_id)
        return self._parents[sweep]

    def _create_parent(self, record: Record, place: SweepPlace, sweep: Path) -> Any:
        tags = {"record": place.id, "folder": str(sweep), **SOURCE, **_USER}
        name = name_parent(place, record.spec.scenario, sweep)
        return self._client.create_run(self._experiment, find_start(record), tags, name)

    def _write_run(
        self, content: RunContent, folder: Path, known: list[Any], parent: str | None
    ) -> str:
        """Write the run of a record, and then delete those that it replaces.

        They are deleted when it has been read back. It is RUNNING until then, so that one that was
        cut short is completed by whoever uses the store next.
        """
        same = next((run for run in known if run.data.tags.get(_DIGEST) == content.digest), None)
        here = content.tags["folder"]
        replaced = [r for r in known if r is not same and r.data.tags.get("folder") == here]
        if same is None and len(replaced) < len(known):
            other = next(run for run in known if run not in replaced)
            raise BadInput(
                f"{here}: the store has a run with its id, {content.tags['record']}, and other "
                f"content: {other.info.run_id}, of {other.data.tags.get('folder')}",
                "Neither was changed. If this record is the right one, delete that run in MLflow.",
            )
        run = same or self._client.create_run(
            self._experiment,
            start_time=content.started_ms,
            run_name=content.name,
            tags={
                _DIGEST: content.digest,
                "record": content.tags["record"],
                "folder": here,
                **_USER,
            },
        )
        run_id = str(run.info.run_id)
        try:
            self._fill_run(run, content, self._write_links(run, folder, parent), parent)
            self._attach_files(run, folder, content.tables)
            if replaced:
                self._check_run(run_id, content)
            for old in replaced:
                self._client.delete_run(old.info.run_id)
        except Exception as error:
            if same is None and _find_reason(error) != _SILENT:
                with suppress(Exception):
                    self._client.delete_run(run_id)
            raise
        return run_id

    def _fill_run(self, run: Any, content: RunContent, links: str, parent: str | None) -> None:
        """Write tags, which may have changed, and once what MLflow can't overwrite."""
        is_new = run.info.status == "RUNNING"
        started = content.started_ms
        tags = {**content.tags, MLFLOW_RUN_NOTE: links + content.tags[MLFLOW_RUN_NOTE]}
        if parent:
            tags[MLFLOW_PARENT_RUN_ID] = parent
        self._client.log_batch(
            run.info.run_id,
            metrics=[
                Metric(point.name, point.value, started + point.step, point.step)
                for point in content.points
            ]
            if is_new
            else (),
            params=[Param(*parameter) for parameter in content.parameters.items()]
            if is_new
            else (),
            tags=_list_tags(tags),
        )

    def _write_links(self, run: Any, folder: Path, parent: str | None = None) -> str:
        """Return links to a run's page and to its sweep, the first words of its note."""
        runs = f"#/experiments/{self._experiment}/runs"
        words = "?workflowType=machine_learning"
        links = []
        if (folder / REPORT_FILE).exists():
            page = f"{runs}/{run.info.run_id}/artifacts/{REPORT_FILE}{words}"
            links.append(f"[Report]({page})")
        if parent:
            links.append(f"[Sweep]({runs}/{parent}{words})")
        return "".join(f"{link} · " for link in links)

    def _attach_files(
        self, run: Any, folder: Path, tables: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        if self._location.artifacts:  # for their owner alone
            Path(self._location.artifacts).mkdir(mode=0o700, exist_ok=True)
        repository = self._open_artifacts(str(run.info.artifact_uri))
        for path in list_artifacts(folder):
            repository.log_artifact(str(path))
        with TemporaryDirectory() as scratch:
            for name, text in tables.items():
                path = Path(scratch, name)
                path.write_text(text)
                repository.log_artifact(str(path))

    def _open_artifacts(self, address: str) -> ArtifactRepository:
        """Return where a run's files go; raise `StoreError` if a server on another machine names
        what may be a folder of this one. The server is asked once: its next answer may differ."""
        host = urlsplit(self._location.uri).hostname or ""
        is_here = host in ("localhost", "::1") or host.startswith("127.")
        is_local = self._location.artifacts is not None or is_here
        if not is_local and urlsplit(address).scheme not in _REMOTE:
            raise StoreError(
                f"{self._location.name} keeps artifacts in {address}, which may be a folder of "
                "this machine",
                "Nothing was written there. Start it with --serve-artifacts.",
            )
        return get_artifact_repository(address, tracking_uri=self._location.uri)

    def _is_same_record(self, run: Any, sweep: Path) -> bool:
        """Return whether the sweep in a folder has the very record of a run."""
        for folder in records.find(sweep):
            if records.read_brief(folder).id == run.data.tags["record"]:
                content = describe_record(records.read(folder), folder)
                return str(run.data.tags.get(_DIGEST)) == content.digest
        return False

    def _check_run(self, run_id: str, content: RunContent) -> None:
        """Raise `StoreError` unless the store has what was written."""
        stored = self._client.get_run(run_id).data
        metrics = {point.name: point.value for point in content.points}
        if stored.params != content.parameters or stored.metrics != metrics:
            raise StoreError(
                f"{self._location.name} does not hold what was written to it", "Look at it."
            )

    def _complete_runs(self) -> None:
        """Complete the runs that a killed publisher left RUNNING, if their records are still here.

        Others write to a shared store as well, and what a tag of theirs names is not ours to read:
        only a folder of these outputs that holds a record of that very id.
        """
        for run in self._find_runs("attributes.status = 'RUNNING'"):
            try:
                folder = Path(run.data.tags.get("folder") or "/").resolve()
                if folder.is_relative_to(self._location.outputs) and (
                    records.read_brief(folder).id == run.data.tags.get("record")
                ):
                    self.publish(folder)
            except StoreOutOfReach:
                raise
            except (RunnerError, OSError, ValueError):
                _LOG.warning("The run %s can't be completed.", run.info.run_id, exc_info=True)

    def _find_runs(
        self, condition: str, experiment: str | None = None, view: int = ViewType.ACTIVE_ONLY
    ) -> list[Any]:
        """Return every run, page by page."""
        runs, page = [], None
        while True:
            some = self._client.search_runs(
                [experiment or self._experiment], condition, view, page_token=page
            )
            runs += some
            if not (page := some.token):
                return runs

    def _find_first(
        self,
        condition: str,
        experiment: str | None = None,
        order: str = "attributes.start_time DESC",
    ) -> Any | None:
        runs = self._client.search_runs(
            [experiment or self._experiment], condition, max_results=1, order_by=[order]
        )
        return runs[0] if runs else None

    def _check_file(self) -> None:
        """Let SQLite say why an embedded store can't be written; MLflow would try for minutes."""
        if self._location.database:
            with self._open_database(self._location.database) as database:
                database.execute("BEGIN IMMEDIATE")

    def _open_database(self, path: Path) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(path, timeout=self._lock_seconds))

    def _create(self, database: Path) -> None:
        """Make the embedded store under another name: a kill in the midst of it leaves nothing."""
        for left in database.parent.glob(f".{database.name}.*"):
            left.unlink()
        if database.exists():
            self._check_schema(database)
            return
        scratch = database.with_name(f".{database.name}.{os.getpid()}")
        scratch.touch(mode=0o600)  # for its owner alone
        with _without_syncs():
            address = self._location.artifact_address
            SqlAlchemyStore(make_sqlite_uri(scratch), address).engine.dispose()
        with scratch.open("rb") as file:
            os.fsync(file.fileno())
        scratch.replace(database)

    def _check_schema(self, database: Path) -> None:
        """Raise `StoreError` for the file of a newer MLflow; MLflow itself calls it out of date."""
        with self._open_database(database) as connection:
            try:
                ((version,),) = connection.execute("SELECT version_num FROM alembic_version")
            except (sqlite3.OperationalError, ValueError):
                return  # it can't be read, or is no store of MLflow's: who opens it says so
        if not any(_MIGRATIONS.glob(f"{version}_*.py")):
            raise StoreError(
                f"{database} was made by a newer MLflow than {mlflow.__version__}, which is here",
                "Install the newer one, or move the file away.",
            )

    def _find_experiment(self) -> str:
        name = self._location.experiment
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return str(self._client.create_experiment(name, self._location.artifact_address))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                experiment = self._client.get_experiment_by_name(name)
        if experiment is None or not experiment.experiment_id:
            raise StoreError(
                f"{self._location.name}: its answer names no experiment {name!r}",
                "Is it an MLflow server?",
            )
        if experiment.lifecycle_stage == "deleted":
            raise StoreError(
                f"{self._location.name}: the experiment {name!r} is in MLflow's trash",
                "Restore it there, or say tracking.experiment=NAME.",
            )
        database, now = self._location.database, self._location.artifact_address
        if database and now and experiment.artifact_location != now:
            self._follow_move(database, experiment.artifact_location, now)
        return str(experiment.experiment_id)

    def _follow_move(self, file: Path, before: str, now: str) -> None:
        """Correct the whole paths in the store when the outputs were moved to another place."""
        outputs = str(Path(unquote(before)).parent), str(Path(unquote(now)).parent)
        with self._open_database(file) as database:
            for table, column, (old, new), condition in (
                ("experiments", "artifact_location", (before, now), ""),
                ("runs", "artifact_uri", (before, now), ""),
                ("tags", "value", outputs, " AND key = 'folder'"),
            ):
                database.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                    f"WHERE ({column} = ? OR substr({column}, 1, ?) = ?){condition}",
                    (new, len(old) + 1, old, len(old) + 1, f"{old}/"),
                )
            database.commit()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except RunnerError:
            raise
        except Exception as error:
            reason = _find_reason(error)
            _LOG.warning("%s", reason, exc_info=True)
            kind = StoreOutOfReach if reason == _SILENT else StoreError
            raise kind(f"{self._location.name}: {reason}") from error


def open_store(location: StoreLocation) -> MlflowStore:
    """Return a prepared store for a verb, whose terminal is no place for what goes to a log."""
    for logger in (_LOG, logging.getLogger("mlflow")):
        logger.setLevel(logging.CRITICAL)
    if location.database:
        location.database.parent.mkdir(parents=True, exist_ok=True)
    store = MlflowStore(location, lock_seconds=20.0)
    store.prepare()
    return store


def _read_without_allocations(folder: Path) -> Record:
    """Leave out what weighs most, and what the note of a sweep does not need."""
    return replace(records.read(folder), allocations=None)


def _list_tags(tags: Mapping[str, str]) -> list[RunTag]:
    return [RunTag(name, value[:LONGEST_TAG]) for name, value in tags.items()]


def _is_active(run: Any) -> bool:
    """Return whether a run is not in the trash."""
    return str(run.info.lifecycle_stage) == "active"


def _is_copied(run: Any, content: RunContent) -> bool:
    """Return whether a run has been written whole from the same record in another folder."""
    tags = run.data.tags
    is_elsewhere = tags.get("folder") != content.tags["folder"]
    is_whole = run.info.status != "RUNNING"
    return is_elsewhere and is_whole and str(tags.get(_DIGEST)) == content.digest


def _quote(value: object) -> str:
    """Return a literal for a condition; MLflow's grammar has no way to escape a quote."""
    text = str(value)
    mark = '"' if "'" in text else "'"
    if mark in text:
        raise BadInput(f"{text!r} is not the name of a record or a sweep", "Look at its file.")
    return f"{mark}{text}{mark}"


@contextmanager
def _lock_first_use(folder: Path) -> Iterator[None]:
    """Let one process in at a time: two that migrate a store at once break it."""
    descriptor = os.open(folder / ".mlflow.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _without_syncs() -> Iterator[None]:
    """Make SQLite trust the system for a file that nobody else has.

    Fifty migrations, each synced, take up to 5 s on a busy disk; half a second if the file is
    synced once, at the end.
    """

    def trust_the_system(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    engine = sqlalchemy.engine.Engine
    sqlalchemy.event.listen(engine, "connect", trust_the_system)
    try:
        yield
    finally:
        sqlalchemy.event.remove(engine, "connect", trust_the_system)


_SILENT = "the server does not answer"


def _find_reason(error: BaseException) -> str:
    """Return the first cause that says what is wrong with the world, in a line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, sqlite3.Error):
            return str(cause)
        if isinstance(cause, requests.ConnectionError | requests.Timeout):
            return _SILENT
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.filename}: {cause.strerror}" if cause.filename else cause.strerror
        cause = cause.__cause__ or cause.__context__
    return get_first_line(error)[:300]
