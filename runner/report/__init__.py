"""Records -> what people look at: a page that can be mailed, pictures, files for other tools.

    write(folder)      report.html of a run or a sweep: one file that loads nothing
    views(folder)      the allocations of a run for other tools: timeline.json (Perfetto, Chrome),
                       allocations.folded (flame graphs), allocations.csv
    pictures(folder)   PNGs of a run or a sweep, for the tracking store; matplotlib takes a second

Each can be made again from the records at any time; none measures. A file is whole or not there.
They are written beside the records, unless `into` names another folder.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

from runner import places, records
from runner.allocations import Allocations, Curve, Group, Line, Part
from runner.export import allocations as allocation_views
from runner.records import RECORD_FILE, Record
from runner.report import stacking

REPORT_FILE = "report.html"
TIMELINE_FILE = "timeline.json"
FOLDED_FILE = "allocations.folded"
TABLE_FILE = "allocations.csv"
PEAK_PICTURE = "peak.png"
MOST_BANDS = 300
"""Of each cell's lives in a sweep's page."""


def write(folder: Path, into: Path | None = None) -> Path:
    """Write `report.html` of the run or the sweep in `folder`; returns where it is."""
    if (folder / RECORD_FILE).exists():
        from runner.report.run_page import run_page

        text = run_page(records.read(folder), folder)
    else:
        from runner.report.sweep_page import sweep_page

        text = sweep_page([_light(records.read(each)) for each in records.find(folder)], folder)
    return places.write((into or folder) / REPORT_FILE, text)


def _light(record: Record) -> Record:
    """Without what a sweep's page does not show, the curves first of all: most of what a thousand
    records weigh. Of the lives it shows the largest."""
    if (found := record.allocations) is None:
        return record
    groups = tuple(replace(group, scopes=()) for group in found.groups)
    lives = found.lives and stacking.thinned(found.lives, MOST_BANDS)
    kept = replace(
        found, groups=groups, lines=(), lives=lives, curve=Curve(), peak_curve=Curve(), marks=()
    )
    return replace(record, allocations=kept)


def views(folder: Path) -> list[Path]:
    """Write a run's allocations for other tools, as far as the record has what they show."""
    allocations = records.read(folder).allocations
    if not allocations or not allocations.groups:
        return []
    written = []
    if allocations.curve.seconds:
        timeline = json.dumps(allocation_views.chrome_trace(allocations), separators=(",", ":"))
        written.append(places.write(folder / TIMELINE_FILE, timeline))
    if all(group.scopes for group in allocations.groups):
        written.append(places.write(folder / FOLDED_FILE, allocation_views.folded(allocations)))
    return [*written, places.write(folder / TABLE_FILE, groups_csv(allocations))]


def groups_csv(allocations: Allocations) -> str:
    """What was live at the peak, a row for what one line made of one op, shape and dtype, the
    largest lines first; of a record without lines, a row a group. The bytes sum to the peak."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    split = ("held_bytes", "kept_bytes", "gradient_bytes", "passing_bytes")
    head = ["file", "line", "code", "op", "shape", "dtype", "count", "bytes", "share"]
    writer.writerow([*head, *split, "scopes"])
    rows: list[tuple[Line | None, Group | Part]]
    rows = [(line, part) for line in allocations.lines for part in line.parts]
    for line, group in rows or [(None, each) for each in allocations.groups]:
        shape = "" if group.shape is None else "x".join(map(str, group.shape)) or "scalar"
        named = [group.scope] if isinstance(group, Part) else [each.scope for each in group.scopes]
        share = group.bytes / allocations.total_bytes if allocations.total_bytes else 0.0
        parts = [getattr(group.split, name, None) for name in split]
        writer.writerow(
            [
                *((line.file, line.line, line.code) if line else ("", "", "")),
                *(group.op, shape, group.dtype, group.count, group.bytes),
                *(f"{share:.6f}", *parts, " ".join(filter(None, named))),
            ]
        )
    return text.getvalue()


def pictures(folder: Path, into: Path | None = None) -> list[Path]:
    """Draw as PNGs a run's peak and its live bytes over time, or a sweep's peaks and times by cell
    and along the numbers that were swept; nothing for a run that has no figures."""
    from runner.report.drawings import draw_run, draw_sweep

    if (folder / RECORD_FILE).exists():
        return draw_run(records.read(folder), into or folder)
    found = [_light(records.read(each)) for each in records.find(folder)]
    return draw_sweep(found, into or folder)
