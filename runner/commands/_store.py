"""The tracking store of a verb: choose it by the words, and open it in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runner.store.location import StoreLocation, make_mlflow_environment

if TYPE_CHECKING:
    from runner.config import Tracking
    from runner.store.mlflow_store import MlflowStore


def choose_store(words: Sequence[str]) -> Tracking:
    """Return the store that is meant, and say so where it is not the environment's."""
    from runner.compose.tracking import read_tracking  # OmegaConf takes a while

    choice = read_tracking(words)
    warn_of_unused_address(choice)
    return choice


def warn_of_unused_address(choice: Tracking) -> None:
    """Print one line if the environment names a server and another store was chosen."""
    from runner.compose.tracking import explain_unused_address

    if line := explain_unused_address(choice):
        print(f"runner: {line}", file=sys.stderr)


def open_store(location: StoreLocation) -> MlflowStore:
    """Return the store, opened in this process; raise `StoreError` if that is not possible."""
    os.environ.update(make_mlflow_environment(os.environ))  # before MLflow is imported
    from runner.store import mlflow_store

    return mlflow_store.open_store(location)
