"""Pages that can be mailed: one file that loads nothing, made from records at any time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runner import paths, records
from runner.allocations import Curve, Lives
from runner.records import RECORD_FILE, Cells, Record
from runner.render.html import lives_layout

REPORT_FILE = "report.html"
MOST_BANDS = 300
"""A sweep's page has so many bands of the cell that it shows."""


def write_page(folder: Path) -> Path:
    """Write `report.html` of the run or the sweep in `folder`, whole or not at all; return where
    it is."""
    if (folder / RECORD_FILE).exists():
        return write_run_page(records.read(folder), folder)
    return write_sweep_page(read_cells(folder), folder)


def read_cells(folder: Path) -> Cells:
    """Return the records of a sweep with what its page, its table and its summary show: without
    curves, most of what a thousand records weigh, and with the lives of the highest peak alone."""
    highest: tuple[int, Path, Lives] | None = None

    def read(cell: Path) -> Record:
        nonlocal highest
        record = records.read(cell)
        if (allocations := record.allocations) is None:
            return record
        if allocations.lives and (highest is None or allocations.total_bytes > highest[0]):
            highest = allocations.total_bytes, cell, allocations.lives
        groups = tuple(replace(group, scopes=()) for group in allocations.groups)
        kept = replace(
            allocations,
            groups=groups,
            lines=(),
            lives=None,
            curve=Curve(),
            peak_curve=Curve(),
            marks=(),
        )
        return replace(record, allocations=kept)

    readable, unreadable = records.read_each(records.find(folder), read)
    if highest is None:
        return readable, unreadable
    _, place, lives = highest
    fewer = lives_layout.keep_largest(lives, MOST_BANDS)
    return [
        (cell, _set_lives(record, fewer) if cell == place else record) for cell, record in readable
    ], unreadable


def write_sweep_page(cells: Cells, folder: Path) -> Path:
    """Write `report.html` of a sweep; return where it is."""
    from runner.render.html.sweep_page import draw_sweep_page

    readable, unreadable = cells
    text = draw_sweep_page([record for _, record in readable], folder, unreadable)
    return paths.write_text(folder / REPORT_FILE, text)


def write_run_page(record: Record, folder: Path) -> Path:
    """Write `report.html` of a run; return where it is."""
    from runner.render.html.run_page import draw_run_page

    return paths.write_text(folder / REPORT_FILE, draw_run_page(record, folder))


def _set_lives(record: Record, lives: Lives) -> Record:
    assert record.allocations is not None
    return replace(record, allocations=replace(record.allocations, lives=lives))
