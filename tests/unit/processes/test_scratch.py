"""A scratch folder lives as long as somebody holds its lock, and not longer."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from runner.processes import scratch


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_an_abandoned_folder_is_removed_and_no_other(tmp_path: Path) -> None:
    held, lock = scratch.make_folder()
    left, released = scratch.make_folder()
    (left / "1").mkdir()
    (left / "1" / "file").write_text("what a killed trial left")
    os.close(released)
    foreign = tmp_path / "runner-trial-of-somebody"
    foreign.mkdir()
    scratch.remove_abandoned()
    assert (held.exists(), left.exists(), foreign.exists()) == (True, False, True)
    os.close(lock)
    scratch.remove_abandoned()
    assert not held.exists()


def test_a_copy_of_a_lock_holds_it() -> None:
    folder, lock = scratch.make_folder()
    copy = os.dup(lock)
    os.close(lock)
    scratch.remove_abandoned()
    assert folder.exists()
    os.close(copy)


def test_where_nothing_can_be_locked_nobody_tries_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(OSError, match="Too many open files"):
        scratch.make_folder()
