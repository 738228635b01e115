"""The MLflow run that is active in the user's own program, if one is.

A record's figures go there, and those of a training's epochs. MLflow is not imported for it: where
it is not loaded, no run can be active.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.errors import StoreError, get_first_line
from runner.records import RECORD_FILE, Record
from runner.store.content import list_figures

TAG = "runner.records"
"""Ids of the records logged to this MLflow run, in order."""

ARTIFACTS = "runner"


def find_active_run() -> str | None:
    """Return the id of the run that is active now, also of one that autologging began."""
    mlflow: Any = sys.modules.get("mlflow")
    run = mlflow.active_run() if mlflow is not None else None
    return None if run is None else str(run.info.run_id)


def log_record(record: Record, folder: Path, run_id: str) -> None:
    """Add a record's metrics, as a step after those before it, and its file to a run.

    The run stays the user's: its name, parameters and end are left alone. Raises `StoreError`.
    """
    import mlflow
    from mlflow.entities import Metric, RunTag
    from mlflow.exceptions import MlflowException

    client = mlflow.MlflowClient()
    try:
        logged = client.get_run(run_id).data.tags.get(TAG, "")
        known = [*filter(None, logged.split(",")), record.id]
        now, step = round(1000 * time.time()), len(known) - 1
        metrics = [Metric(figure.name, figure.value, now, step) for figure in list_figures(record)]
        client.log_batch(run_id, metrics=metrics, tags=[RunTag(TAG, ",".join(known))])
        client.log_artifact(run_id, str(folder / RECORD_FILE), f"{ARTIFACTS}/{record.id}")
    except (MlflowException, OSError) as error:
        reason = get_first_line(error)[:300]
        raise StoreError(
            f"Not in the active MLflow run: {reason}", f"The record is in {folder}."
        ) from error


def log_figures(metrics: Mapping[str, float], epoch: int | None = None) -> None:
    """Log figures of the whole training, or of an epoch; those not where autologging does, which
    reads them from Keras' logs."""
    if find_active_run() and (epoch is None or not _is_autologged()):
        import mlflow

        mlflow.log_metrics(dict(metrics), step=epoch)


def _is_autologged() -> bool:
    from mlflow.utils import autologging_utils as autolog

    return any(
        not autolog.autologging_is_disabled(flavor)
        and autolog.get_autologging_config(flavor, "log_every_epoch", True)
        for flavor in ("keras", "tensorflow")
    )
