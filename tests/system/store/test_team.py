"""One store for a team: a real PostgreSQL behind a real MLflow server, and many who publish."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.factories import completed, failed, kept
from tests.listening import exposed
from tests.system.store import team

CLIENTS, RUNS = 4, 50
LONG = 1200.0
"""Seconds that nothing here comes near, however busy the machine is."""

pytestmark = [pytest.mark.usefixtures("mlflow_imported"), pytest.mark.timeout(2 * LONG)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[team.Server]:
    if why := team.why_not():
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    ports = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    with team.postgres(ports[0]) as password:
        made = team.Server(ports[0], ports[1], tmp_path, password)
        made.start()
        yield made
        made.kill()


def publishers(outputs: Path, uri: str) -> list[subprocess.Popen[str]]:
    """Each client brings in all of its own records."""
    return [
        subprocess.Popen(
            [sys.executable, "-m", "runner", "publish", str(outputs / f"client{client}"),
             "tracking=server", f"tracking.uri={uri}"],
            env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for client in range(CLIENTS)
    ]  # fmt: skip


def runs_at(uri: str) -> list[Any]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("runner")
    if experiment is None:
        return []
    return list(client.search_runs([experiment.experiment_id], max_results=1000))


def test_clients_of_a_server_that_is_killed_half_way_lose_nothing_and_bring_nothing_in_twice(
    server: team.Server, outputs: Path
) -> None:
    expected = set()
    for client in range(CLIENTS):
        for number in range(RUNS):
            make = failed if number else completed
            folder = kept(make(f"r{client}-{number}"), outputs / f"client{client}" / str(number))
            expected.add(f"r{client}-{number}")
            if number:  # fewer files are sent in less time
                for file in ("config.yaml", "run.log", "trials.jsonl"):
                    (folder / file).unlink(missing_ok=True)
    clients = publishers(outputs, server.uri)
    assert server.process is not None
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    assert exposed(each.pid for each in family) == []
    deadline = time.monotonic() + LONG
    while len(runs_at(server.uri)) < 0.3 * CLIENTS * RUNS and time.monotonic() < deadline:
        time.sleep(0.2)
    server.kill()
    for each in clients:
        shown, said = each.communicate(timeout=LONG)
        assert each.returncode == 1, said
        assert "does not answer" in shown
        assert "Traceback" not in said

    server.start()
    before = Counter(run.data.tags["record"] for run in runs_at(server.uri))
    assert 0 < len(before) < CLIENTS * RUNS
    for each in publishers(outputs, server.uri):
        _, said = each.communicate(timeout=LONG)
        assert each.returncode == 0, said
    found = runs_at(server.uri)
    assert Counter(run.data.tags["record"] for run in found) == dict.fromkeys(expected, 1)
    statuses = Counter(run.info.status for run in found)
    assert statuses == {"FINISHED": CLIENTS, "FAILED": CLIENTS * (RUNS - 1)}
    whole = next(run for run in found if run.data.tags["record"] == "r0-0")
    assert whole.data.metrics["tensor_peak_bytes"] > 0
