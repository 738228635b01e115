"""Two nodes that share no disk, and a scheduler that is there: nothing is lost, nothing is left."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.cluster import network, nodes
from tests.system.cluster.conftest import CELLS, GRID, Cluster, finish, need, read_table, wait_until

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def cluster(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need(network.why_not())
    folder = tmp_path_factory.mktemp("nodes")
    with nodes.running(folder, home) as (networks, environment):
        words = ("hydra/launcher=dask", f"hydra.launcher.address={environment['ADDRESS']}")
        yield Cluster(words, networks[0].inside, environment, networks[1:])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_stopped_command_leaves_nothing_and_is_resumed(
    number: signal.Signals, code: int, cluster: Cluster, outputs: Path, home: Path, swept_here: Path
) -> None:
    process = cluster.start_and_wait(outputs, home, CELLS // 3, *GRID)
    process.send_signal(number)
    finish(process, code)
    wait_until(lambda: not cluster.list_servers(), "a server of trials is left", 60)
    finish(cluster.start(outputs, home, *GRID, "resume=latest"), 1)
    assert read_table(outputs) == read_table(swept_here)


def test_a_killed_worker_and_a_cut_network_lose_nothing(
    cluster: Cluster, outputs: Path, home: Path, swept_here: Path
) -> None:
    process = cluster.start_and_wait(outputs, home, CELLS // 3, *GRID)
    processes = cluster.namespaces[0].processes()
    (worker,) = [process for process in processes if "spawn_main" in str(process.info)]
    worker.kill()
    cluster.wait_for_records(process, outputs, CELLS // 2)
    link = ("ip", "-n", cluster.namespaces[1].name, "link", "set", network.LINK, "down")
    subprocess.run(link, check=True)
    finish(process, 1)
    assert read_table(outputs) == read_table(swept_here)
