"""What is done to a module once it is loaded."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from runner.script.hooks import after_import


def test_a_module_that_was_only_looked_for_is_changed_when_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watched_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    changed: list[ModuleType] = []
    after_import("watched_module", changed.append)
    assert importlib.util.find_spec("watched_module") is not None
    module = importlib.import_module("watched_module")
    importlib.reload(module)
    assert changed == [module]
