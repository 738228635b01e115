"""Records -> a tidy table: one row a cell, as files beside the cells and as a pandas frame.

The columns: `cell`, `status`, `reason`; each parameter (`scenario.size` is `size` here, the rest is
called as it is typed); each metric, with `METRIC_low` and `METRIC_high` where any cell has an
interval; last what is set below `device` and `measure`. What a cell lacks is missing, never 0.
Trials are not read: they are nearly all of a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import paths, records
from runner.analysis import selection
from runner.errors import BadInput
from runner.metrics import METRICS
from runner.records import Cells, Record
from runner.sanitize import escape_csv, make_printable

if TYPE_CHECKING:
    import pandas

CSV_FILE = "table.csv"
PARQUET_FILE = "table.parquet"

_OUTCOME = ("cell", "status", "reason", "sweep")
_SETTINGS = ("device.", "measure.")
_METRICS = [metric + suffix for metric in METRICS for suffix in ("", "_low", "_high")]
_TAKEN = {*_OUTCOME, *_METRICS, "scenario", "execution", "device", "measure", "batch_size", "seed"}
"""A scenario's parameter of such a name keeps its prefix."""


def load(*paths: str | Path) -> pandas.DataFrame:
    """Return the table of everything at or below `paths`: runs, sweeps, or folders above them.
    Where that is more than one run or sweep, a column `sweep` says which."""
    if not paths:
        raise BadInput("load: no folder is named.", 'Say runner.load("outputs/sweeps/DATE/TIME").')
    folders = dict.fromkeys(
        folder for path in paths for folder in records.find(Path(path).resolve())
    )
    frame = make_frame(records.read_each(folders, records.read_brief))
    return frame if frame["sweep"].nunique() > 1 else frame.drop(columns="sweep")


def write_csv(frame: pandas.DataFrame, folder: Path) -> None:
    """Write `table.csv`, whole or not at all; no spreadsheet runs what is in it."""
    safe = frame.copy(deep=False)
    names: list[str] = list(frame.select_dtypes("string").columns)
    for name in names:
        safe[name] = frame[name].map(escape_csv, na_action="ignore")
    safe.columns = safe.columns.map(escape_csv)
    with paths.replace_file(folder / CSV_FILE) as scratch:
        safe.to_csv(scratch, index=False)


def write_parquet(frame: pandas.DataFrame, folder: Path) -> None:
    """Write `table.parquet`, whole or not at all."""
    with paths.replace_file(folder / PARQUET_FILE) as scratch:
        frame.to_parquet(scratch, index=False)


def make_frame(cells: Cells) -> pandas.DataFrame:
    """Return a row a record, and one for each that can't be read."""
    import pandas

    readable, unreadable = cells
    rows = [dict(_read_row(record)) for _, record in readable]
    lost = {"status": "unreadable"}
    rows += [{**lost, "reason": make_printable(problem.sentence)} for problem in unreadable]
    names = sorted({name: None for row in rows for name in row}, key=_place_column)
    columns = {name: _type_values([row.get(name) for row in rows]) for name in names}
    return pandas.DataFrame(columns)


def _read_row(record: Record) -> Iterator[tuple[str, Any]]:
    reason = record.outcome.reason
    yield "cell", record.cell
    yield "status", record.outcome.status.value
    yield "reason", None if reason is None else " ".join(reason.split())  # a row is a line
    yield "sweep", record.sweep.id if record.sweep else record.id
    for field, value in record.spec.fields.items():
        name = field.removeprefix("scenario.")
        yield (field if name in _TAKEN else name), value
    yield from record.metrics.items()
    for name, (low, high) in record.intervals.items():
        yield f"{name}_low", low
        yield f"{name}_high", high


def _place_column(name: str) -> tuple[int, int]:
    """Return where a column stands; those of the same place stay in the order in which they
    came."""
    if name in _OUTCOME:
        return 0, 0
    if name in _METRICS:
        return 2, _METRICS.index(name)
    return (3 if name.startswith(_SETTINGS) else 1), 0


def _type_values(values: list[Any]) -> pandas.api.extensions.ExtensionArray:
    """Return a column of one type: whole numbers stay so where others are missing; a mixture is
    text."""
    import pandas

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pandas.array(values, dtype="boolean")
    if kinds == {int} and all(abs(value or 0) < 2**63 for value in values):
        return pandas.array(values, dtype="Int64")
    if kinds <= {int, float} and all(abs(value or 0) < 10**300 for value in values):
        missing = float("nan")
        return pandas.array([missing if v is None else v for v in values], dtype="float64")
    words = [
        None if value is None else make_printable(selection.format_word(value)) for value in values
    ]
    return pandas.array(words, dtype="string")
