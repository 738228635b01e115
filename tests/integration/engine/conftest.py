"""What sweeps stand on."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "2026-01-31" / "12-00-00-abcd"
