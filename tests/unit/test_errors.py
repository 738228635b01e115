"""Faults of the machine are one sentence, whoever meets them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runner.__main__ import main
from tests.conftest import Cli

FAULTS = ("EIO", "EFBIG", "EMFILE", "ENFILE", "EAGAIN", "ENOSPC", "EDQUOT", "ENOMEM")


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("file", [None, "/a/file"])
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


def test_a_folder_that_is_gone_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.delenv("RUNNER_OUTPUTS", raising=False)
    (tmp_path / "gone").rmdir()
    assert main(["report", "latest"]) == 1
    assert "the folder in which this was started is gone" in capsys.readouterr().err
