"""Records -> a tidy table: one row a cell, as files beside the records and as a pandas frame.

The columns: `cell`, `status`, `reason`; each parameter, under the name it has in MLflow too
(`scenario.size` is `size`); each metric, with `METRIC_low` and `METRIC_high` beside it where any
cell has an interval; last what `device` and `measure` were set to. What a cell lacks is missing,
never 0. Trials are not read: they are nearly all of a record.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import records, selection
from runner.errors import BadInput
from runner.metrics import METRICS
from runner.records import Record
from runner.tracking.content import parameter_name

if TYPE_CHECKING:
    import pandas

CSV_FILE = "table.csv"
PARQUET_FILE = "table.parquet"


def load(*paths: str | Path) -> pandas.DataFrame:
    """The table of everything at or below `paths`: runs, sweeps, or folders above them. Where it
    is from several sweeps or runs, a column `sweep` says from which."""
    if not paths:
        raise BadInput("load: no folder is named.", 'Say runner.load("outputs/sweeps/DATE/TIME").')
    folders = dict.fromkeys(folder for path in paths for folder in records.find(Path(path)))
    return _frame(_read(folders))


def write(folder: Path) -> None:
    """Write the table of the sweep in `folder` beside its cells, each file whole or not at all."""
    frame = _frame(_read(records.find(folder)))
    _keep(folder / CSV_FILE, lambda path: frame.to_csv(path, index=False))
    _keep(folder / PARQUET_FILE, lambda path: frame.to_parquet(path, index=False))
