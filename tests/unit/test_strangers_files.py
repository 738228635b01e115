"""A folder that somebody else gave away is data: it runs, resolves and writes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import pandas
import pytest

from runner import paths, user_code
from runner.claims.judging import CLAIMS_FILE, read_request
from runner.compose import composition
from runner.engine import environment, folders
from runner.errors import BadInput
from runner.overrides import quote_value
from runner.processes import scratch
from runner.render.files import table


@pytest.fixture(autouse=True)
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "outputs"
    folder.mkdir()
    monkeypatch.setenv("RUNNER_OUTPUTS", str(folder))
    return folder


@pytest.mark.parametrize(
    ("place", "is_own"),
    [
        ("outputs/runs/2026-01-01/12-00-00", True),
        ("outputs/sweeps/2026-01-01/12-00-00/0", True),
        ("outputs/artifacts/1/abc/artifacts", False),
        ("outputs/runs", False),
        ("elsewhere/runs/2026-01-01/12-00-00", False),
    ],
)
def test_own_is_what_this_user_s_commands_made(place: str, is_own: bool, tmp_path: Path) -> None:
    assert folders.is_own(tmp_path / place) is is_own


def test_claims_from_elsewhere_are_not_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "plan.json").write_text("{}")
    kept = {"claims": ["evil.yaml"], "settings": {"scenario.target": "os:system"}, "in_full": True}
    (folder / CLAIMS_FILE).write_text(json.dumps(kept))
    with pytest.raises(BadInput, match="comes from elsewhere"):
        read_request([], [f"resume={folder}"])


def test_a_folder_with_links_is_not_resumed(tmp_path: Path) -> None:
    folder, victim = tmp_path / "given", tmp_path / "victim"
    (folder / "0").mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    victim.write_text("mine")
    (folder / "0" / "trials.jsonl").symlink_to(victim)
    with pytest.raises(BadInput, match=r"trials\.jsonl is a link"):
        folders.find_resumable(str(folder), "sweeps", "sweep")


def test_a_link_beside_a_file_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".page.html.{os.getpid()}").symlink_to(victim)
    paths.write_text(tmp_path / "page.html", "theirs")
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("asks_git", [True, False])
def test_git_is_not_asked_of_a_stranger_s_files(asks_git: bool, tmp_path: Path) -> None:
    repository, marker = tmp_path / "repository", tmp_path / "marker"
    subprocess.run(["git", "init", "-q", repository], check=True)
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o700)
    subprocess.run(["git", "-C", repository, "config", "core.fsmonitor", str(hook)], check=True)
    file = repository / "x.py"
    file.touch()
    environment.describe_user_code([{str(file): "0" * 16}], asks_git)
    assert marker.exists() is asks_git


def test_a_key_is_not_looked_up_where_a_record_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    arguments = {"a:${oc.env:SECRET},b": "v"}
    word = f"scenario.arguments={quote_value(arguments)}"
    with pytest.raises(BadInput) as refused:
        composition.compose_plan(["scenario=callable", "scenario.target=os:getcwd", word])
    assert "hunter2" not in str(refused.value)


def test_plain_keys_are_repeated_as_they_are() -> None:
    arguments = {"plain": 1, "named": [2], "other": {"deep": "x", "7": True}}
    assert quote_value(arguments) == "{plain:1,named:[2],other:{deep:x,7:true}}"


def test_a_column_s_name_is_no_formula(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"=cmd|x": [1]})
    table.write_csv(frame, tmp_path)
    assert not (tmp_path / table.CSV_FILE).read_text().startswith("=")


def test_a_pipe_in_a_file_s_place_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "runner-trials-x"
    os.mkfifo(pipe)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))

    def look() -> None:
        scratch.remove_abandoned()
        assert user_code.hash_files([str(pipe)]) == {}

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
