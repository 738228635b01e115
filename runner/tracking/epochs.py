"""The epochs of a training in the user's own program, for the MLflow run that is active there.

MLflow is not imported for it: where it is not loaded, no run can be active.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.tracking import active


def log(figures: Mapping[str, float], epoch: int) -> None:
    """As metrics at this step; not where autolog does it, which reads them from Keras' logs."""
    if active.run_id() and not _is_logged_by_itself():
        import mlflow

        mlflow.log_metrics(dict(figures), step=epoch)


def log_end(figures: Mapping[str, float]) -> None:
    """As metrics of the run."""
    if active.run_id():
        import mlflow

        mlflow.log_metrics(dict(figures))


def _is_logged_by_itself() -> bool:
    from mlflow.utils import autologging_utils as autolog

    return any(
        not autolog.autologging_is_disabled(flavor)
        and autolog.get_autologging_config(flavor, "log_every_epoch", True)
        for flavor in ("keras", "tensorflow")
    )
