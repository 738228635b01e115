"""Records -> a tidy table: one row a cell, as files beside the cells and as a pandas frame.

The columns: `cell`, `status`, `reason`; each parameter (`scenario.size` is `size` here, the rest is
called as it is typed); each metric, with `METRIC_low` and `METRIC_high` where any cell has an
interval; last what is set below `device` and `measure`. What a cell lacks is missing, never 0.
Trials are not read: they are nearly all of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import places, records
from runner.errors import BadInput
from runner.foreign import printable
from runner.judging import selection
from runner.metrics import METRICS
from runner.records import Record

if TYPE_CHECKING:
    import pandas

CSV_FILE = "table.csv"
PARQUET_FILE = "table.parquet"

_OUTCOME = ("cell", "status", "reason")
_SETTINGS = ("device.", "measure.")
_TAKEN = frozenset(
    {*_OUTCOME, "sweep", "scenario", "execution", "device", "measure", "batch_size", "seed"}
    | {metric + suffix for metric in METRICS for suffix in ("", "_low", "_high")}
)
"""A scenario's parameter of such a name keeps its prefix."""


def load(*paths: str | Path) -> pandas.DataFrame:
    """The table of everything at or below `paths`: runs, sweeps, or folders above them. Where that
    is more than one run or sweep, a column `sweep` says which."""
    if not paths:
        raise BadInput("load: no folder is named.", 'Say runner.load("outputs/sweeps/DATE/TIME").')
    found = dict.fromkeys(folder for path in paths for folder in records.find(Path(path).resolve()))
    frame = _frame(found)
    return frame if frame["sweep"].nunique() > 1 else frame.drop(columns="sweep")


def write(folder: Path) -> None:
    """Write the table of the sweep in `folder` beside its cells, each file whole or not at all."""
    frame = _frame(records.find(folder)).drop(columns="sweep")
    _keep(folder / CSV_FILE, lambda path: frame.to_csv(path, index=False))
    _keep(folder / PARQUET_FILE, lambda path: frame.to_parquet(path, index=False))


def column(field: str) -> str:
    """The column of a field of the configuration."""
    name = field.removeprefix("scenario.")
    return field if name in _TAKEN else name


def _keep(path: Path, write: Callable[[Path], object]) -> None:
    with places.whole(path) as scratch:
        write(scratch)


def _frame(folders: Iterable[Path]) -> pandas.DataFrame:
    import pandas

    rows = [dict(_row(records.read_brief(folder))) for folder in folders]
    names = sorted({name: None for row in rows for name in row}, key=_place)
    columns = {name: _typed([row.get(name) for row in rows]) for name in names}
    return pandas.DataFrame(columns)


def _row(record: Record) -> Iterator[tuple[str, Any]]:
    reason = record.outcome.reason
    yield "cell", record.cell
    yield "status", record.outcome.status.value
    yield "reason", None if reason is None else " ".join(reason.split())  # a row is a line
    yield "sweep", (record.sweep or {}).get("id", record.id)
    for field, value in selection.fields(record.spec).items():
        yield column(field), value
    yield from record.metrics.items()
    for name, (low, high) in record.intervals.items():
        yield f"{name}_low", low
        yield f"{name}_high", high


def _place(name: str) -> tuple[int, int]:
    """Where a column stands; those of the same place stay in the order in which they came."""
    if name in _OUTCOME or name == "sweep":
        return 0, 0
    if name in _METRIC_PLACES:
        return 2, _METRIC_PLACES[name]
    return (3 if name.startswith(_SETTINGS) else 1), 0


_METRIC_PLACES = {
    name: number
    for number, name in enumerate(
        metric + suffix for metric in METRICS for suffix in ("", "_low", "_high")
    )
}


def _typed(values: list[Any]) -> pandas.api.extensions.ExtensionArray:
    """A column of one type: whole numbers stay so where others are missing; a mixture is text."""
    import pandas

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pandas.array(values, dtype="boolean")
    if kinds == {int} and all(abs(value or 0) < 2**63 for value in values):
        return pandas.array(values, dtype="Int64")
    if kinds <= {int, float} and all(abs(value or 0) < 10**300 for value in values):
        missing = float("nan")
        return pandas.array([missing if v is None else v for v in values], dtype="float64")
    words = [None if value is None else printable(selection.word(value)) for value in values]
    return pandas.array(words, dtype="string")
