"""Which store, where its files and pages are, and how a process of MLflow's is set up."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

from runner import paths
from runner.config import Tracking
from runner.errors import BadInput

LOCAL_UI = "http://127.0.0.1:5000"
"""Where `python -m runner ui` serves the embedded store by default."""


@dataclass(frozen=True)
class Links:
    """Pages that open ready to read: the table of runs, and the same runs side by side."""

    runs: str
    comparison: str


@dataclass(frozen=True)
class StoredRun:
    """A record's run in MLflow, or a sweep's, and the address of its page."""

    run_id: str
    page: str
    view: Links | None = None
    """The pages of a sweep's cells."""


@dataclass(frozen=True)
class StoreLocation:
    """One MLflow store, and the experiment in it that records go to."""

    uri: str
    artifacts: str | None
    """The folder of the artifacts; None: the server decides."""
    experiment: str
    pages: str
    """The address of its UI."""
    outputs: str
    """The folder with what was measured here, the only one that files are taken from unasked."""

    @property
    def name(self) -> str:
        """Return what a message calls it: the address, or the embedded store's file."""
        return str(self.database or self.uri)

    @property
    def database(self) -> Path | None:
        """Return the embedded store's file."""
        return Path(unquote(self.uri.removeprefix("sqlite:///"))) if self.artifacts else None

    @property
    def artifact_address(self) -> str | None:
        """Return what MLflow is told of the folder of the artifacts."""
        return make_address(self.artifacts) if self.artifacts else None

    def make_stored_run(self, experiment_id: str, run_id: str) -> StoredRun:
        """Return a run with the address of its page."""
        page = f"{self.pages}/#/experiments/{experiment_id}/runs/{run_id}"
        return StoredRun(run_id, f"{page}?workflowType=machine_learning")

    def make_links(self, experiment_id: str, key: str) -> Links:
        """Return the pages of a saved view.

        MLflow's page `compare-runs` can't be told which metrics to show, and leaves out every
        metric that one of its runs lacks.
        """
        words = urlencode({"workflowType": "machine_learning", "viewStateShareKey": key})
        runs = f"{self.pages}/#/experiments/{experiment_id}/runs?{words}"
        return Links(runs, f"{runs}&compareRunsMode=CHART")


def locate_store(tracking: Tracking, outputs: Path) -> StoreLocation:
    """Return where records go; raise `BadInput` for tracking=none."""
    if tracking.kind == "none":
        raise BadInput("tracking=none: there is no store.", "Say tracking=local.")
    outputs = outputs.resolve()
    if tracking.kind == "server":
        uri = (tracking.uri or "").rstrip("/")  # `Tracking` has checked that it is an address
        return StoreLocation(uri, None, tracking.experiment, uri, str(outputs))
    return StoreLocation(
        uri=make_sqlite_uri(outputs / "mlflow.db"),
        artifacts=str(outputs / "artifacts"),
        experiment=tracking.experiment,
        pages=LOCAL_UI,
        outputs=str(outputs),
    )


def make_address(path: str | Path) -> str:
    """Return a path as MLflow takes it, which reads every path as a part of an address."""
    return quote(str(path))


def make_sqlite_uri(database: Path) -> str:
    """Return the address that MLflow takes for a database's file."""
    address = make_address(database)
    # MLflow makes the folder above the file without reading the quotes, which would be a stray
    # one. In an address without slashes it sees none to make.
    return f"sqlite:///{address if address == str(database) else quote(str(database), safe='')}"


def write_publish_command(folder: Path, tracking: Tracking) -> str:
    """Return the command that brings a run's or a sweep's folder into the store later."""
    words = ["python", "-m", "runner", "publish", str(folder)]
    if tracking.kind == "server":
        words += ["tracking=server", f"tracking.uri={tracking.uri}"]
    if tracking.experiment != "runner":
        words.append(f"tracking.experiment={tracking.experiment}")
    return shlex.join(words)


def make_mlflow_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return variables for a process that imports MLflow: silent, and not waiting for minutes."""
    quiet = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    }
    patient = {
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    }
    return {**patient, **inherited, **quiet}


def make_python_path() -> str:
    """Return a PYTHONPATH by which a process elsewhere finds the runner, and what is found here."""
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    whole = [str(paths.find_package().parent), *map(os.path.abspath, folders)]
    return os.pathsep.join(whole)
