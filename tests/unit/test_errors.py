"""Faults of the machine are one sentence, whoever meets them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runner.__main__ import main
from tests.conftest import Cli

FAULTS = ("EIO", "EFBIG", "EMFILE", "ENFILE", "EAGAIN", "ENOSPC", "EDQUOT", "ENOMEM")
UNNAMED = ("EROFS", "EACCES", "EPERM", "ENOTDIR")
"""Faults of the machine where no path is named: the path's own where one is."""


@pytest.mark.parametrize(
    ("name", "file"),
    [*((name, "/a/file") for name in FAULTS), *((name, None) for name in (*FAULTS, *UNNAMED))],
)
def test_a_fault_of_the_machine_is_one_sentence(
    name: str, file: str | None, front_door: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = getattr(errno, name)

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number), file)

    monkeypatch.setattr("runner.__main__.call", fail)
    ended = front_door("list")
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 2
    assert "should not have happened" not in ended.stderr
    assert file is None or file in ended.stderr


@pytest.mark.parametrize("word", ["resume=a\udcff", "seed=\udcff"])
def test_a_word_that_is_not_utf_8_is_one_sentence(word: str, front_door: Cli) -> None:
    ended = front_door("scenario=tape", "tracking=none", word)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 2


@pytest.mark.parametrize("words", [["clean", "latest"], ["report", "latest"], ["ui"]])
def test_outputs_that_are_not_utf_8_are_refused(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RUNNER_OUTPUTS", str(tmp_path / "a\udcff"))
    assert main(words) == 2
    assert "is not UTF-8, so no results can go there.\n  Name" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.delenv("RUNNER_OUTPUTS", raising=False)
    (tmp_path / "gone").rmdir()
    assert main(["report", "latest"]) == 1
    assert "the folder in which this was started is gone" in capsys.readouterr().err
