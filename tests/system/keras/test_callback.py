"""`runner.keras.MemoryCallback` in a script of a user's own: one process, all that it says."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LEAK_BYTES = 600 * 600 * 4

FIGURES = ["allocator_peak_bytes", "allocator_live_bytes", "host_peak_bytes", "host_live_bytes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": os.getcwd()}  # noqa: PTH109
    environment.pop("TF_CPU_ALLOCATOR_USE_BFC", None)
    subprocess.run(
        [sys.executable, "-m", "tests.system.keras.fitting", str(folder)],
        cwd=folder,  # where MLflow puts what it is not told where to put
        check=True,
        timeout=500,
        env=environment,
    )
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> Any:
    return json.loads((folder / "found.json").read_text())


def test_each_epoch_has_its_figures_in_the_logs(found: Any, folder: Path) -> None:
    assert all(len(found["leaking"][name]) == 2 for name in FIGURES)
    with (folder / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["allocator_live_bytes"]) for row in rows] == (
        found["leaking"]["allocator_live_bytes"]
    )


def test_a_tensor_of_each_batch_that_is_kept_is_growth(found: Any) -> None:
    """But for what malloc's chunks have beyond a tensor: where they are mapped by huge pages, one
    in ten has most of a page."""
    first, second = found["leaking"]["allocator_live_bytes"]
    assert second - first == pytest.approx(12 * LEAK_BYTES, rel=0.2)
    assert found["leaking_verdict"] == "grows"
    rate = found["leaking_growth"]["allocator_growth_bytes_per_step"]
    assert rate == pytest.approx(LEAK_BYTES, rel=0.1)


def test_it_says_what_it_found_and_what_it_cannot_see(found: Any) -> None:
    (said,) = found["said"]
    assert "in 2 epochs (24 batches)" in said
    assert re.search(r"Tensors of 262,144 bytes and more grow by 1\.[45]\d MB a batch\.", said)
    assert "Not seen: tensors of less than that" in said
    assert "24 batches are too few to say whether the host's memory grows: it takes 200." in said


def test_training_that_keeps_nothing_does_not_grow_and_too_few_batches_are_unknown(
    found: Any,
) -> None:
    assert found["flat_growth"] == {
        "allocator_growth_bytes_per_step": 0,
        "host_growth_bytes_per_step": None,
    }


def test_a_run_that_is_active_in_mlflow_has_each_epoch_as_a_step(found: Any) -> None:
    peaks = found["flat"]["allocator_peak_bytes"]
    assert [tuple(point) for point in found["active"]] == list(enumerate(peaks))
    assert found["active_metrics"]["allocator_growth_bytes_per_step"] == 0
    assert "host_growth_bytes_per_step" not in found["active_metrics"]


def test_a_run_of_autologs_has_each_epoch_once(found: Any) -> None:
    assert [step for step, _ in found["autolog"]] == [0, 1]


def test_an_allocator_that_counted_nothing_has_no_figure(found: Any) -> None:
    """TensorFlow's CPU allocator leaves out every tensor of this training: its 0 is unknown."""
    for where in ("small", "small_metrics"):
        known = {name for name in found[where] if name.startswith(("allocator", "host"))}
        assert known == {"host_peak_bytes", "host_live_bytes"}, where
    assert set(found["small_growth"]) == {"host_growth_bytes_per_step"}
