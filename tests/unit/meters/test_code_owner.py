"""Whose code a file is, and what it is called where the program began."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from runner import paths
from runner.meters import code_owner
from runner.meters.code_owner import PYTHON, RUNNER, SCENARIO, USERS, find_owner


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/home/me/train.py", USERS),
        ("train.py", USERS),
        ("/env/lib/python3.11/site-packages/keras/src/models/model.py", "keras"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "numpy"),
        (f"{sysconfig.get_path('stdlib')}/threading.py", PYTHON),
        ("<string>", PYTHON),
        ("/tmp/__autograph_generated_fileab.py", PYTHON),
        (f"{paths.find_package()}/trial/worker.py", RUNNER),
        (f"{paths.find_scenarios()}/loops.py", SCENARIO),
    ],
)
def test_a_file_belongs_to_who_wrote_it(file: str, owner: str) -> None:
    assert find_owner(file) == owner


def test_files_are_named_from_where_the_program_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, gone = tmp_path / "begins", tmp_path / "gone"
    begins.mkdir()
    gone.mkdir()
    monkeypatch.chdir(begins)
    monkeypatch.setattr(code_owner, "_folder", None)
    code_owner.note_folder()
    os.chdir(gone)
    gone.rmdir()

    assert code_owner.make_absolute("train.py") == str(begins / "train.py")
    assert code_owner.make_relative(str(begins / "models" / "net.py")) == "models/net.py"
    assert code_owner.make_relative("/elsewhere/net.py") == "/elsewhere/net.py"
    code_owner.return_to_folder()
    assert Path.cwd() == begins
