"""What a user's script does with the callback, in a process of its own; its findings as JSON.

python -m tests.system.keras.fitting FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import keras
import mlflow
import tensorflow as tf

from runner.integrations.keras_callback import MemoryCallback

SIZE = 600  # 1.44 MB a tensor: what TensorFlow's CPU allocator counts by default
LEAK_BYTES = SIZE * SIZE * 4


class Keeps(keras.callbacks.Callback):
    """A tensor of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.kept.append(tf.ones([SIZE, SIZE]))


def fit(epochs: int, steps: int, *callbacks: keras.callbacks.Callback, size: int = SIZE) -> Any:
    model = keras.Sequential([keras.Input((size,)), keras.layers.Dense(size)])
    model.compile(optimizer="sgd", loss="mse")
    batch = tf.ones([8, size])
    data = tf.data.Dataset.from_tensors((batch, batch)).repeat(steps)
    return model.fit(data, epochs=epochs, verbose=0, callbacks=list(callbacks)).history


def main(folder: Path) -> None:
    said: list[str] = []
    found: dict[str, Any] = {}
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    small = MemoryCallback(verbose=False)
    with mlflow.start_run() as of_small:  # before any tensor that is counted
        found["small"] = fit(1, 5, small, size=8)
    found["small_growth"] = small.growth
    leaking = MemoryCallback(say=said.append)
    log = keras.callbacks.CSVLogger(str(folder / "log.csv"))
    found["leaking"] = fit(2, 12, Keeps(), leaking, log)
    found["leaking_verdict"], found["leaking_growth"] = leaking.verdict, leaking.growth
    flat = MemoryCallback(verbose=False)
    with mlflow.start_run() as run:
        found["flat"] = fit(2, 12, flat)
    found["flat_growth"] = flat.growth
    mlflow.keras.autolog(log_models=False, log_datasets=False)
    with mlflow.start_run() as logged_by_itself:
        fit(2, 3, MemoryCallback(verbose=False))
    client = mlflow.MlflowClient()
    for name, each in (("active", run), ("autolog", logged_by_itself)):
        points = client.get_metric_history(each.info.run_id, "allocator_peak_bytes")
        found[name] = [(point.step, point.value) for point in points]
    found["active_metrics"] = client.get_run(run.info.run_id).data.metrics
    found["small_metrics"] = client.get_run(of_small.info.run_id).data.metrics
    found["said"] = said
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    main(Path(sys.argv[1]))
