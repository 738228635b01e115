"""A declarative experiment runner that measures what TensorFlow does with memory.

    import runner

    found = runner.measure(make_step, batch_size=32)       # a function, in processes of its own
    runner.compare(found, runner.open("outputs/runs/2026-01-31/12-00-00-1a2b"))
    runner.load("outputs/sweeps/2026-01-31/12-00-00-1a2b")  # a table, a row a cell

`%load_ext runner` gives a notebook `%%runner`, which measures a cell.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import paths

if TYPE_CHECKING:
    import pandas

    from runner.integrations.api import measure
    from runner.integrations.measurement import Compared, Measurement, compare
    from runner.integrations.measurement import open as open
    from runner.integrations.notebook import load_ipython_extension

_IN = {
    **dict.fromkeys(
        ("Compared", "Measurement", "compare", "open"), "runner.integrations.measurement"
    ),
    "measure": "runner.integrations.api",
    "load_ipython_extension": "runner.integrations.notebook",
}
"""Names imported on first access, so that child processes stay light."""

__all__ = ["Compared", "Measurement", "compare", "load", "load_ipython_extension", "measure"]

paths.make_scenarios_importable()


def load(*paths: str | Path) -> pandas.DataFrame:
    """Return the records at or below these folders as a frame: see `runner.render.files.table`."""
    from runner.render.files import table  # pandas: half a second; no child may ever see it

    return table.load(*paths)


def __getattr__(name: str) -> Any:
    if name == "keras":  # which imports Keras
        return importlib.import_module("runner.keras")
    if name in _IN:
        return getattr(importlib.import_module(_IN[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
