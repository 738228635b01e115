"""A file that is replaced is there whole or not at all, whoever is killed or writes it too."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from runner import paths


def kill_writer(path: Path) -> Path:
    """Kill a process while it writes a file; return what it left."""
    child = os.fork()
    if child == 0:
        with paths.replace_file(path) as scratch:
            scratch.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (left,) = path.parent.glob(f".{path.name}.*")
    return left


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    left = kill_writer(path)
    assert not path.exists()
    paths.write_text(path, "whole")
    assert not left.exists()
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    path, others = tmp_path / "report.html", tmp_path / ".report.html.notes"
    others.touch()
    with paths.replace_file(path) as scratch:
        scratch.write_text("mine")
        paths.write_text(path, "theirs")
        assert path.read_text() == "theirs"
    assert path.read_text() == "mine"
    assert others.exists()


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "no_folder" / "report.html"
    with pytest.raises(FileNotFoundError) as raised:
        paths.write_text(path, "")
    assert (raised.value.filename, raised.value.errno) == (str(path), errno.ENOENT)
    full = tmp_path / "report.html"
    with pytest.raises(ZeroDivisionError), paths.replace_file(full) as scratch:
        scratch.write_text(str(1 / 0))
    assert not list(tmp_path.iterdir())
