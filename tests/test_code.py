"""Which code of the user's was measured, and what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import code


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_known_by_its_content_under_its_name_from_here(here: Path) -> None:
    (here / "mine.py").write_text("x = 1")
    files = code.files_of([str(here / "mine.py"), "/nowhere/at/all.py"])
    assert list(files) == ["mine.py"]
    assert code.changed_since(files) == []
    (here / "mine.py").write_text("x = 2")
    assert code.changed_since(files) == ["mine.py"]
    (here / "mine.py").unlink()
    assert code.changed_since(files) == ["mine.py"]


def test_what_changed_between_the_trials_of_a_run_is_told() -> None:
    files, changed = code.together([{"a.py": "1"}, {}, {"a.py": "2", "b.py": "3"}])
    assert files == {"a.py": "2", "b.py": "3"}
    assert changed == ["a.py"]


def test_a_difference_names_the_files_that_both_have_and_the_revisions() -> None:
    def environment(digest: str, revision: str, dirty: bool) -> dict[str, object]:
        git = {"revision": revision, "dirty": dirty}
        return {"code": {"files": {"a.py": digest, f"{digest}.py": "x"}, "git": git}}

    old, new = environment("1", "a" * 40, False), environment("2", "b" * 40, True)
    assert code.difference(old, new) == (
        "a.py differs (aaaaaaaaaa against bbbbbbbbbb with changes)"
    )
    assert code.difference(old, old) is None
    assert code.difference(old, {}) is None
