"""Searches that people who know MLflow type, and the rows that each finds."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from runner.records import SweepPlace
from runner.store.location import StoreLocation
from tests.factories import completed, kept

pytestmark = pytest.mark.usefixtures("mlflow_imported")


@pytest.fixture
def search(location: StoreLocation, outputs: Path) -> Any:
    """Find the names of runs in a store that has a named sweep of four cells and a run."""
    from mlflow import MlflowClient

    from runner.store.mlflow_store import open_store

    store, sweep = open_store(location), outputs / "sweeps" / "s"
    cells = [(scenario, gradient) for scenario in ("python_loop", "while_loop")
             for gradient in ("none", "tape")]  # fmt: skip
    for number, (scenario, gradient) in enumerate(cells):
        swept = {"scenario": scenario, "scenario.gradient": gradient}
        place = SweepPlace("s", number, swept, experiment="loops")
        record = completed(f"s-{number}", scenario=scenario, gradient=gradient, sweep=place)
        store.publish(kept(record, sweep / str(number)))
    store.publish_sweep(sweep)
    record = completed("alone", batch_size=256, gradient="tape")
    store.publish(kept(dataclasses.replace(record), outputs / "runs" / "1"))
    client = MlflowClient(tracking_uri=location.uri)

    def find(condition: str, **order: Any) -> list[str]:
        return [run.info.run_name for run in client.search_runs(["1"], condition, **order)]

    return find


TAPED = {"gradient=tape python_loop graph", "gradient=tape while_loop graph"}
PLAIN = {"gradient=none python_loop graph", "gradient=none while_loop graph"}
ALONE = {"while_loop graph batch=256"}


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("metrics.tensor_peak_bytes < 1e6", {*TAPED, *PLAIN, *ALONE} - {
            "gradient=tape python_loop graph", "gradient=none python_loop graph"}),
        ("metrics.Peak_MB < 0.1", {"gradient=tape while_loop graph",
                                   "gradient=none while_loop graph"}),
        ("params.`scenario.gradient` = 'tape'", TAPED | ALONE),
        ("params.scenario = 'while_loop' and params.batch_size = '256'", ALONE),
        ("tags.experiment = 'loops'", TAPED | PLAIN),
        ("tags.sweep = 's'", TAPED | PLAIN),
        ("tags.status = 'completed' and params.device = 'cpu'", TAPED | PLAIN | ALONE),
        ("attributes.run_name LIKE 'loops:%'", {"loops: scenario, gradient"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_search_finds_its_rows_and_no_others(
    condition: str, names: set[str], search: Any
) -> None:
    found = search(condition)
    assert set(found) == names
    assert len(found) == len(names)


def test_runs_can_be_sorted_by_a_readable_figure(search: Any) -> None:
    order = search("metrics.Peak_MB > 0", order_by=["metrics.Peak_MB ASC"])
    assert order[-1].endswith("python_loop graph")
    assert len(order) == 5
