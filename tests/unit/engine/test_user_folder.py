"""A worker stands where the user stands: in the same folder, or in a copy of it that was sent."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runner.engine import user_folder
from runner.engine.user_folder import UserFolder
from runner.errors import Unavailable


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / "package").mkdir(parents=True)
    (home / "mine.py").write_text("answer = 42\n")
    (home / "package" / "data.csv").write_text("1,2\n")
    monkeypatch.chdir(home)
    monkeypatch.delenv("RUNNER_OUTPUTS", raising=False)
    return home


def list_files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_on_a_shared_disk_it_is_the_folder_itself(home: Path, tmp_path: Path) -> None:
    assert UserFolder.read().find(tmp_path) == home


@pytest.mark.parametrize("what", ["gone", "a copy", "changed"])
def test_on_another_disk_it_is_what_was_sent(what: str, home: Path, tmp_path: Path) -> None:
    user = UserFolder.read()
    os.chdir(tmp_path)
    if what == "a copy":
        shutil.copytree(home, tmp_path / "elsewhere")
    if what == "changed":
        os.utime(home / "mine.py", (1, 1))
    else:
        shutil.rmtree(home)
    if what == "a copy":
        (tmp_path / "elsewhere").rename(home)
    copy = user.find(tmp_path / "scratch")
    assert copy != home
    assert list_files(copy) == {"mine.py", "package/data.csv"}


def test_outputs_environments_and_what_is_hidden_are_not_sent(home: Path, tmp_path: Path) -> None:
    for name in ("outputs/runs", ".git", "__pycache__", "env", "package/.cache"):
        (home / name).mkdir(parents=True)
        (home / name / "large").write_text("x")
    (home / "env" / "pyvenv.cfg").touch()
    (home / ".netrc").write_text("secret")
    os.mkfifo(home / "pipe")
    (home / "nowhere").symlink_to("no such file")
    user = replace(UserFolder.read(), identity=())
    assert list_files(user.find(tmp_path / "scratch")) == {"mine.py", "package/data.csv"}


@pytest.mark.parametrize(("name", "most"), [("_MOST_BYTES", 10), ("_MOST_FILES", 1)])
def test_a_folder_that_is_too_large_is_named_where_it_is_missed(
    name: str, most: int, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_folder, name, most)
    user = UserFolder.read()
    assert user.find(tmp_path) == home, "it is not missed here"
    with pytest.raises(Unavailable, match="too large to be sent"):
        replace(user, identity=()).find(tmp_path)


def test_a_process_stands_there_for_a_while_with_the_commands_variables(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_DETERMINISTIC_OPS", "1")
    monkeypatch.setenv("RUNNER_CONFIG_DIR", "theirs")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setattr(sys, "path", [str(home), str(home / "package"), "/elsewhere"])
    user = UserFolder.read()
    monkeypatch.setattr(sys, "path", ["/the/worker's"])
    for name in user.variables:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    copy = replace(user, identity=()).find(tmp_path / "scratch")
    with user.entered(copy):
        assert Path.cwd() == copy
        assert sys.path == [str(copy), str(copy / "package"), "/elsewhere", "/the/worker's"]
        assert os.environ["TF_DETERMINISTIC_OPS"] == "1"
        assert os.environ["RUNNER_CONFIG_DIR"] == "theirs"
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0", "the node decides"
        assert "OMP_NUM_THREADS" not in os.environ, "Dask has set it"
    assert Path.cwd() == tmp_path
    assert sys.path == ["/the/worker's"]
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert "TF_DETERMINISTIC_OPS" not in os.environ
