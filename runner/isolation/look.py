"""Parent side: whether the device is there. Only TensorFlow knows, in a child, and a run asks
before it has written anything."""

from __future__ import annotations

import tempfile
from pathlib import Path

from runner.config import Experiment
from runner.errors import Unavailable
from runner.isolation.server import Server
from runner.plan import Assignment
from runner.records import Status


def require_device(experiment: Experiment) -> None:
    """Raise `Unavailable` if a GPU is asked for that TensorFlow does not see. Leaves the warm
    server running, for the trials to come."""
    device = experiment.device
    if device.kind == "cpu" or (device.kind == "auto" and device.index == 0):
        return
    with tempfile.TemporaryDirectory() as scratch:
        assignment = Assignment(experiment, "look", 0)
        trial = Server(Path(scratch) / "log").run(assignment, experiment.measure.timeout_seconds)
    if trial.outcome.status is Status.UNSUPPORTED:
        raise Unavailable(trial.outcome.reason or "")
