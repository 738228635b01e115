"""Stores of a test's own, and what MLflow holds in them, read by MLflow itself."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.config import Tracking
from runner.store.location import (
    StoreLocation,
    locate_store,
    make_mlflow_environment,
    make_sqlite_uri,
)

os.environ.update(make_mlflow_environment(os.environ))

LOCAL = Tracking("local", None, "runner")
Runs = Callable[..., list[Any]]


@pytest.fixture(scope="session")
def mlflow_imported() -> None:
    """Import MLflow, which warns about itself; our tests end on any warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("mlflow.store.tracking.sqlalchemy_store")
        importlib.import_module("sqlalchemy.orm").configure_mappers()  # or at first use


@pytest.fixture(scope="session")
def empty_store(mlflow_imported: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as MLflow makes it, which takes it half a second."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    folder = tmp_path_factory.mktemp("empty_store")
    (folder / "mlflow.db").touch(mode=0o600)
    SqlAlchemyStore(make_sqlite_uri(folder / "mlflow.db"), str(folder)).engine.dispose()
    return folder / "mlflow.db"


@pytest.fixture
def location(outputs: Path, empty_store: Path) -> StoreLocation:
    """An empty store that is there already; `make_anew` takes it away."""
    outputs.mkdir()
    shutil.copy(empty_store, outputs)
    return locate_store(LOCAL, outputs)


def make_anew(location: StoreLocation) -> None:
    """Leave it to the product to make the store."""
    assert location.database is not None
    location.database.unlink()


@pytest.fixture
def runs(mlflow_imported: None, outputs: Path) -> Runs:
    """Every active run in the store, oldest first."""

    def read(uri: str = locate_store(LOCAL, outputs).uri) -> list[Any]:
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name("runner")
        found = client.search_runs(
            [experiment.experiment_id], order_by=["attributes.start_time ASC"]
        )
        return list(found)

    return read


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
