"""A run and a sweep in folders, as real ones leave them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.factories import kept, sweep_of_nine
from tests.unit.render.known import make_known_run


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return kept(make_known_run(), tmp_path / "run")


@pytest.fixture
def sweep_folder(tmp_path: Path) -> Path:
    """Three ways to loop, three batch sizes; python_loop ran out of memory at 512."""
    for number, record in enumerate(sweep_of_nine()):
        kept(record, tmp_path / "sweep" / str(number))
    return tmp_path / "sweep"
