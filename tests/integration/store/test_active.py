"""An MLflow run that is active in the user's own program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.errors import StoreError
from runner.store import active
from runner.store.location import StoreLocation
from tests import factories


@pytest.fixture
def mlflow(
    mlflow_imported: None, location: StoreLocation, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """With a store of the user's own."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", location.uri)  # which MLflow sets, for good
    import mlflow

    from runner.store.mlflow_store import open_store

    open_store(location)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(location.uri)
    mlflow.set_experiment("runner")
    yield mlflow
    mlflow.set_tracking_uri(before)


def test_an_active_run_gets_each_records_figures_as_a_step_and_stays_the_users(
    mlflow: Any, tmp_path: Path
) -> None:
    assert active.find_active_run() is None
    with mlflow.start_run(run_name="my training") as run:
        mlflow.log_param("batch_size", 7)
        assert active.find_active_run() == run.info.run_id
        for name in ("first", "second"):
            record = factories.completed(name)
            active.log_record(record, factories.kept(record, tmp_path / name), run.info.run_id)
        assert mlflow.active_run().info.status == "RUNNING"
    client = mlflow.MlflowClient()
    kept = client.get_run(run.info.run_id)
    history = client.get_metric_history(run.info.run_id, "tensor_peak_bytes")
    peak = record.metrics["tensor_peak_bytes"]
    assert [(each.step, each.value) for each in history] == [(0, peak), (1, peak)]
    assert (kept.info.run_name, kept.data.params) == ("my training", {"batch_size": "7"})
    assert kept.data.tags[active.TAG] == "first,second"
    (file,) = client.list_artifacts(run.info.run_id, "runner/second")
    assert file.path.endswith("record.json")
    with pytest.raises(StoreError, match="Not in the active MLflow run"):
        active.log_record(record, tmp_path / "second", "no-such-run")
