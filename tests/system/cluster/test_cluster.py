"""What a sweep promises on one machine holds on a cluster: a real Slurm of two nodes, a real Ray of
two nodes. Two cells lose their worker, one of them again and again, and the sweep is resumed."""

from __future__ import annotations

import platform
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pandas
import psutil
import pytest

from runner import records
from runner.records import Record, Status
from tests.resuming import only, steady, stored, table
from tests.system.cluster import network
from tests.system.cluster.conftest import ALWAYS, GRID, LONG, ONCE, Cluster, open_cluster

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Swept:
    """The sweep whose workers were killed, and after that resumed."""

    kind: str
    folder: Path
    said: list[str]
    exit_codes: list[int]
    killed: pandas.DataFrame
    resumed: pandas.DataFrame
    lost: Record
    exposed: set[str] = field(default_factory=set)
    """Listeners that another machine could reach, of all processes that took part."""

    def records(self) -> list[Record]:
        return [records.read(self.folder / str(number)) for number in range(12)]


@pytest.fixture(scope="module", params=["submitit_slurm", "ray"])
def swept(
    request: pytest.FixtureRequest, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Swept:
    outputs = tmp_path_factory.mktemp(request.param)
    said, codes, exposed = [], [], set[str]()
    with open_cluster(request.param) as cluster:
        (outputs / ALWAYS).touch()
        (outputs / ONCE).touch()
        for resume in ([], ["resume=latest"]):
            process = cluster.start(outputs, home, *GRID, *resume)
            watched = watching(process, cluster, exposed)
            shown, errors = process.communicate(timeout=LONG)
            watched.join()
            said.append(shown + errors)
            codes.append(process.returncode)
            assert list(outputs.glob("sweeps/*/*/table.csv")), said
            if not resume:
                killed, lost = table(only(outputs)), records.read(only(outputs) / "5")
                (outputs / ALWAYS).unlink()
    folder = only(outputs)
    return Swept(request.param, folder, said, codes, killed, table(folder), lost, exposed)


def watching(
    process: subprocess.Popen[str], cluster: Cluster, exposed: set[str]
) -> threading.Thread:
    """Looks for listeners until the process has ended."""

    def look() -> None:
        while process.poll() is None:
            own = [process.pid, *(each.pid for each in cluster.processes())]
            try:
                own += [each.pid for each in psutil.Process(process.pid).children(recursive=True)]
            except psutil.NoSuchProcess:
                break
            exposed.update(network.exposed(own))
            time.sleep(0.5)

    thread = threading.Thread(target=look)
    thread.start()
    return thread


def test_a_cell_that_loses_two_workers_is_failed(swept: Swept, home: Path) -> None:
    statuses = ["completed"] * 12
    statuses[5], statuses[10] = "killed", "failed"
    assert list(swept.killed.status) == statuses, swept.said[0]
    reason = swept.killed.reason[5]
    assert "2 workers were lost while they measured it" in reason
    assert (home / reason.rpartition("its log is ")[2]).exists(), reason
    assert "not with eleven" in swept.killed.reason[10]
    assert "Traceback" not in swept.said[0]
    assert f" under {swept.kind}: not in rounds" in swept.said[0]


def test_a_cell_that_loses_one_worker_is_measured(swept: Swept) -> None:
    assert not (swept.folder.parents[2] / ONCE).exists()
    assert swept.killed.status[2] == "completed"


def test_a_resumed_sweep_has_the_table_of_one_here(swept: Swept, swept_here: Path) -> None:
    assert "12 cells, 11 of them done" in swept.said[1]
    assert swept.exit_codes == [1, 1], "a cell fails wherever it is run"
    assert list(swept.resumed.status).count("completed") == 11
    pandas.testing.assert_frame_equal(steady(swept.resumed), steady(table(swept_here)))
    assert (swept.folder / "report.html").exists()


def test_peaks_are_those_of_a_sweep_here(swept: Swept, swept_here: Path) -> None:
    for number, record in enumerate(swept.records()):
        here = records.read(swept_here / str(number))
        assert record.cell == here.cell
        if record.outcome.completed:
            peak = record.metrics["tensor_peak_bytes"]
            assert peak == here.metrics["tensor_peak_bytes"] == 40_000 + 2 * 400 * (number + 1)


def test_each_record_has_the_environment_of_its_node(swept: Swept, swept_here: Path) -> None:
    here = records.read(swept_here / "0").environment
    for record in (*swept.records(), swept.lost):
        assert record.environment.host == platform.node()
        if record.outcome.completed:
            assert record.environment.comparable == here.comparable, "so that times compare"
        assert record.sweep is not None
        assert (record.sweep.launcher, record.sweep.in_rounds) == (swept.kind, False)
    assert swept.lost.outcome.status is Status.KILLED


def test_the_store_has_one_run_for_each_cell(swept: Swept) -> None:
    runs = stored(swept.folder.parents[2])
    assert len(runs) == 12
    assert [status for _, status in runs].count("FINISHED") == 11


def test_nothing_listens_where_another_machine_reaches_it(swept: Swept) -> None:
    assert swept.exposed == set()
