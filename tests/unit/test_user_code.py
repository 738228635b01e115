"""Which code of the user's was measured, and what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import user_code
from runner.machine import GitState, UserCode


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_known_by_its_content_under_its_name_from_here(here: Path) -> None:
    (here / "mine.py").write_text("x = 1")
    files = user_code.hash_files([str(here / "mine.py"), "/nowhere/at/all.py"])
    assert list(files) == ["mine.py"]
    assert user_code.list_changed(files) == []
    (here / "mine.py").write_text("x = 2")
    assert user_code.list_changed(files) == ["mine.py"]
    (here / "mine.py").unlink()
    assert user_code.list_changed(files) == ["mine.py"]


def test_what_changed_between_the_trials_of_a_run_is_told() -> None:
    files, changed = user_code.merge_files([{"a.py": "1"}, {}, {"a.py": "2", "b.py": "3"}])
    assert files == {"a.py": "2", "b.py": "3"}
    assert changed == ["a.py"]


def test_a_difference_names_the_files_that_both_have_and_the_revisions() -> None:
    def loaded(digest: str, git: GitState) -> UserCode:
        return UserCode("/here", {"a.py": digest, f"{digest}.py": "x"}, (), git)

    old, new = loaded("1", GitState("a" * 40, False)), loaded("2", GitState("b" * 40, True))
    assert user_code.describe_difference(old, new) == (
        "a.py differs (aaaaaaaaaa against bbbbbbbbbb with changes)"
    )
    assert user_code.describe_difference(old, old) is None
    assert user_code.describe_difference(old, None) is None
