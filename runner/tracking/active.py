"""The MLflow run that is active in the user's own program, if one is: a record's figures go there.

MLflow is not imported for it: where it is not loaded, no run can be active.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from runner.errors import StoreError
from runner.records import RECORD_FILE, Record
from runner.tracking import content

TAG = "runner.records"
"""Which records a run of the user's has got, in order."""

ARTIFACTS = "runner"


def run_id() -> str | None:
    """Of the run that is active now, also one that autologging began."""
    mlflow: Any = sys.modules.get("mlflow")
    run = mlflow.active_run() if mlflow is not None else None
    return None if run is None else str(run.info.run_id)


def log(record: Record, folder: Path, run: str) -> None:
    """The record's metrics, as a step after those of the records before it, and its file, into a
    run that stays the user's: its name, parameters and end are left alone."""
    import mlflow
    from mlflow.entities import Metric, RunTag
    from mlflow.exceptions import MlflowException

    client = mlflow.MlflowClient()
    try:
        had = client.get_run(run).data.tags.get(TAG, "")
        known = [*filter(None, had.split(",")), record.id]
        now, step = round(1000 * time.time()), len(known) - 1
        metrics = [Metric(each.name, each.value, now, step) for each in content.figures(record)]
        client.log_batch(run, metrics=metrics, tags=[RunTag(TAG, ",".join(known))])
        client.log_artifact(run, str(folder / RECORD_FILE), f"{ARTIFACTS}/{record.id}")
    except (MlflowException, OSError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreError(
            f"Not in the active MLflow run: {said[:300]}", f"The record is in {folder}."
        ) from error
