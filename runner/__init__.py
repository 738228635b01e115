"""A declarative experiment runner that measures what TensorFlow does with memory.

    import runner
    frame = runner.load("outputs/sweeps/2026-01-31/12-00-00-1a2b")

is the table of a sweep in a notebook, a row a cell; several folders make one table.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runner import places

if TYPE_CHECKING:
    import pandas

__all__ = ["load"]

places.make_scenarios_importable()


def load(*paths: str | Path) -> pandas.DataFrame:
    """The records at or below these folders as a pandas frame: see `runner.export.frames`."""
    from runner.export import frames  # pandas takes half a second, and a child must never see it

    return frames.load(*paths)
