"""The epochs of a training in the user's own program, for the MLflow run that is active there.

MLflow is not imported for it: where it is not loaded, no run can be active.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping


def log(figures: Mapping[str, float], epoch: int) -> None:
    """As metrics at this step; not where autolog does it, which reads them from Keras' logs."""
    if _is_active() and not _is_logged_by_itself():
        import mlflow

        mlflow.log_metrics(dict(figures), step=epoch)


def log_end(figures: Mapping[str, float]) -> None:
    """As metrics of the run."""
    if _is_active():
        import mlflow

        mlflow.log_metrics(dict(figures))


def _is_active() -> bool:
    mlflow = sys.modules.get("mlflow")
    return mlflow is not None and mlflow.active_run() is not None


def _is_logged_by_itself() -> bool:
    from mlflow.utils import autologging_utils as autolog

    return any(
        not autolog.autologging_is_disabled(flavor)
        and autolog.get_autologging_config(flavor, "log_every_epoch", True)
        for flavor in ("keras", "tensorflow")
    )
