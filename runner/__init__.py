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

from runner import places

if TYPE_CHECKING:
    import pandas

    from runner.using.measuring import measure
    from runner.using.notebook import load_ipython_extension
    from runner.using.opened import Compared, Measurement, compare
    from runner.using.opened import open as open

_IN = {
    "Compared": "runner.using.opened",
    "Measurement": "runner.using.opened",
    "compare": "runner.using.opened",
    "measure": "runner.using.measuring",
    "open": "runner.using.opened",
    "load_ipython_extension": "runner.using.notebook",
}
"""What is loaded as it is first asked for: a child, and who only wants one thing, sees no more."""

__all__ = [
    "Compared",
    "Measurement",
    "compare",
    "load",
    "load_ipython_extension",
    "measure",
]

places.make_scenarios_importable()


def load(*paths: str | Path) -> pandas.DataFrame:
    """The records at or below these folders as a pandas frame: see `runner.export.frames`."""
    from runner.export import frames  # pandas takes half a second, and a child must never see it

    return frames.load(*paths)


def __getattr__(name: str) -> Any:
    if name == "keras":  # a room of its own, which imports Keras
        return importlib.import_module("runner.keras")
    if name in _IN:
        return getattr(importlib.import_module(_IN[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
