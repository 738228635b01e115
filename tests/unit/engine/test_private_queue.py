"""What a cluster's workers load is this user's alone, also in a folder that others may write to."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pytest

from runner.engine.cluster.cell_queue import CellQueue, Work
from runner.errors import BadInput


class Evil:
    """Runs when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._marker,)


@pytest.fixture
def queue(tmp_path: Path) -> CellQueue:
    before = os.umask(0)
    try:
        return CellQueue.create(Work(tmp_path, "ray", 0, ()))
    finally:
        os.umask(before)


def test_a_queue_is_closed_to_everybody_else(queue: CellQueue) -> None:
    file = queue.folder / "work.pickle"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(queue.folder.parent.stat().st_mode) == 0o700
    assert queue.read_work().launcher == "ray"


def test_an_older_queue_s_folder_is_closed_as_well(queue: CellQueue, tmp_path: Path) -> None:
    queue.folder.parent.chmod(0o777)
    CellQueue.create(queue.read_work())
    assert stat.S_IMODE(queue.folder.parent.stat().st_mode) == 0o700


def test_a_link_in_the_queue_s_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / ".workers").symlink_to(tmp_path / "theirs")
    with pytest.raises(BadInput, match="can't be closed to others"):
        CellQueue.create(Work(tmp_path, "ray", 0, ()))
    assert list((tmp_path / "theirs").iterdir()) == []


def test_somebody_else_s_folder_is_refused(
    queue: CellQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 12_345)
    with pytest.raises(BadInput, match="somebody else's"):
        CellQueue.create(Work(tmp_path, "ray", 0, ()))
    with pytest.raises(BadInput, match="not this user's alone"):
        queue.read_work()


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o666])
def test_a_file_that_others_can_reach_is_not_loaded(
    queue: CellQueue, tmp_path: Path, mode: int
) -> None:
    file, marker = queue.folder / "work.pickle", tmp_path / "marker"
    file.write_bytes(pickle.dumps(Evil(marker)))
    file.chmod(mode)
    with pytest.raises(BadInput, match="was not loaded"):
        queue.read_work()
    assert not marker.exists()


def test_a_link_is_not_loaded(queue: CellQueue, tmp_path: Path) -> None:
    file, marker, theirs = queue.folder / "work.pickle", tmp_path / "marker", tmp_path / "theirs"
    theirs.touch(mode=0o600)
    theirs.write_bytes(pickle.dumps(Evil(marker)))
    file.unlink()
    file.symlink_to(theirs)
    with pytest.raises(OSError, match="symbolic links"):
        queue.read_work()
    assert not marker.exists()
