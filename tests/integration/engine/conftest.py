"""What sweeps stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stores import mlflow_imported  # noqa: F401


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "2026-01-31" / "12-00-00-abcd"
