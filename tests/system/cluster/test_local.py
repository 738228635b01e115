"""Workers of Dask on this machine: two cells lose theirs, one again and again."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import psutil
import pytest

from runner import records
from tests.listening import exposed
from tests.resuming import only, table
from tests.system.cluster.conftest import CELLS, GRID, LONG, Cluster, finish, read_table

pytestmark = pytest.mark.timeout(1200)

LOCAL = Cluster(("hydra/launcher=dask",))


def test_a_cell_that_loses_two_workers_is_failed_and_resumed(
    outputs: Path, home: Path, swept_here: Path, tmp_path: Path
) -> None:
    cwd = shutil.copytree(home, tmp_path / home.name)
    (cwd / "kill_workers").write_text("once")
    finish(LOCAL.start(outputs, cwd, *GRID), 1)
    statuses = ["completed"] * CELLS
    statuses[1], statuses[5] = "failed", "killed"
    frame = table(only(outputs))
    assert list(frame.status) == statuses
    assert "on 2 different workers, but all those workers died" in frame.reason[5]
    assert (cwd / "kill_workers").read_text() == "", "the cell of three lost one"
    (cwd / "kill_workers").unlink()
    said = finish(LOCAL.start(outputs, cwd, *GRID, "resume=latest"), 1)
    assert f"{CELLS} cells, {CELLS - 1} of them done" in said
    here = read_table(swept_here).replace(str(home), str(cwd))
    assert read_table(outputs) == here
    peaks = [records.read(only(outputs) / str(cell)).metrics for cell in (0, 2, CELLS - 1)]
    sizes = [40_000 + 2 * 400 * batch for batch in (1, 3, CELLS)]
    assert [peak["tensor_peak_bytes"] for peak in peaks] == sizes


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_stopped_command_leaves_no_process_and_none_was_exposed(
    number: signal.Signals, code: int, outputs: Path, home: Path
) -> None:
    process = LOCAL.start_and_wait(outputs, home, CELLS // 3, *GRID)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 4, "two workers and their servers"
    assert exposed([process.pid, *(child.pid for child in family)]) == []
    process.send_signal(number)
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == code, shown + said
    assert "Traceback" not in shown + said
    assert psutil.wait_procs(family, timeout=60)[1] == []
