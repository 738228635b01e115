"""A plan on its way through the engine, on whatever stands in the server's place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.plan import Plan
from runner.running import engine, environment
from runner.running.engine import Result

MACHINE = environment.describe()
"""Read once, as its load changes from second to second."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "2026-01-31" / "12-00-00-abcd"


def ran(plan: Plan, folder: Path, server: Any) -> Result:
    with engine.open_plan(plan, folder) as runs:
        return engine.run_all(runs, folder, server, MACHINE, engine.nobody, engine.nobody, seed=0)
