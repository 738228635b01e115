"""An MLflow run that is active in the user's own program; a store that the environment names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.composing import composition
from runner.composing.store import chosen_store
from runner.errors import StoreError
from runner.tracking import Place, active
from tests import factories


@pytest.fixture
def mlflow(mlflow_imported: None, place: Place) -> Iterator[Any]:
    """With a store of the user's own."""
    import mlflow

    from runner.tracking.store import Store

    Store(place, lock_seconds=5.0).prepare()
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(place.uri)
    mlflow.set_experiment("runner")
    yield mlflow
    mlflow.set_tracking_uri(before)


def test_an_active_run_gets_each_records_figures_as_a_step_and_stays_the_users(
    mlflow: Any, tmp_path: Path
) -> None:
    assert active.run_id() is None
    with mlflow.start_run(run_name="my training") as run:
        mlflow.log_param("batch_size", 7)
        assert active.run_id() == run.info.run_id
        for name in ("first", "second"):
            record = factories.completed(name)
            active.log(record, factories.kept(record, tmp_path / name), run.info.run_id)
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
        active.log(record, tmp_path / "second", "no-such-run")


def test_the_environment_names_server_and_experiment_as_for_any_client_of_mlflow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example:5000")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "loops of ours")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hush")
    (cell,) = composition.plan(["scenario=tape", "tracking=server"], tmp_path / "sweep").cells
    store = cell.experiment.tracking
    assert (store.uri, store.experiment) == ("http://mlflow.example:5000", "loops of ours")
    assert chosen_store(["tracking=server"]) == store
    assert "hush" not in cell.composed
    assert chosen_store([]).experiment == "loops of ours"
