"""`report`: writes report.html in a run's or a sweep's folder, or prints what a peak is made of."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from runner import paths
from runner.commands import Parser
from runner.errors import BadInput

if TYPE_CHECKING:
    from runner.render.text.peak_listing import By

_EPILOG = """\
examples:
  python -m runner report outputs/sweeps/2026-01-31/12-00-00
      writes report.html there: one file that loads nothing, to be opened or mailed
  python -m runner report outputs/runs/2026-01-31/12-00-00 --peak
      prints which lines of code made what was live at the peak, which layers, and what leaks;
      writes nothing
  python -m runner report latest --peak --by op
      the same of the latest run or sweep, by op, shape and dtype
"""


def make_parser() -> Parser:
    parser = Parser(
        "report",
        "Writes report.html in a run's or a sweep's folder and prints where. In a "
        "run's folder also timeline.json (for Perfetto), allocations.folded (for flame graphs), "
        "allocations.csv.",
        _EPILOG,
        offers=["latest"],
    )
    parser.add_argument("path", metavar="PATH", help="a run's or a sweep's folder, or latest")
    parser.add_argument(
        "--peak", action="store_true", help="print what the peak is made of instead"
    )
    parser.add_argument(
        "--by", choices=("line", "layer", "op"), help="how --peak is grouped; line by default"
    )
    parser.add_json()
    return parser


def run(options: argparse.Namespace) -> int:
    # Imported late, so that --help and a mistyped option are answered at once.
    from runner import records
    from runner.engine import folders

    if options.by and not options.peak:
        raise BadInput("--by says how --peak is printed.", "Say --peak, too.")
    path = folders.find_folder(options.path)
    if not path.exists():
        raise BadInput(f"{path}: there is no such folder.", "Name a run's or a sweep's folder.")
    runs = records.find(path)
    folder = path if path.is_dir() else path.parent
    if options.peak:
        return _print_peaks(runs, options.json, options.by or "line")
    return _write(folder, runs == [folder], options.json)


def _write(folder: Path, is_run: bool, as_json: bool) -> int:
    from runner import records
    from runner.leak.page import is_leak_hunt, write_leak_page
    from runner.render import html
    from runner.render.files import allocations

    write_page = write_leak_page if is_leak_hunt(folder) else html.write_page
    written: list[Path] = []
    problems: list[str] = []
    writers: list[Callable[[], Path | list[Path]]] = [lambda: write_page(folder)]
    if is_run:
        writers.append(lambda: allocations.write_files(records.read(folder), folder))
    for write in writers:
        try:
            made = write()
            written += [made] if isinstance(made, Path) else made
        except OSError as error:
            problems.append(f"{error.filename}: can't be written ({error.strerror}).")
    if as_json:
        print(json.dumps([str(file.resolve()) for file in written], indent=1))
    elif written:
        print("\n".join(paths.shorten(file.resolve()) for file in written))
    if problems:
        remedy = "Move away what stands there, or copy the folder to where you may write."
        raise BadInput(" ".join(problems), remedy)
    return 0


def _print_peaks(folders: Sequence[Path], as_json: bool, by: By) -> int:
    """Print a table a run; in a sweep the largest groups of each cell."""
    from runner import records
    from runner.analysis.selection import CellGrid
    from runner.render.peak import MOST_SLICES
    from runner.render.text.peak_listing import list_record

    readable, unreadable = records.read_each(folders)
    for problem in unreadable:
        print(f"runner: {problem.sentence}", file=sys.stderr)
    if as_json:
        plain: list[dict[str, Any]] = [
            {
                "folder": str(folder.resolve()),
                "cell": record.cell,
                "status": record.outcome.status,
                "phase": record.outcome.phase,
                "allocations": msgspec.to_builtins(record.allocations),
            }
            for folder, record in readable
        ]
        print(json.dumps(plain, indent=1))
        return 0
    grid = CellGrid([record for _, record in readable])
    most = MOST_SLICES if len(readable) == 1 else 8
    names = grid.varied or ["scenario", "execution", "batch_size"]
    for _, record in readable:
        print(f"{grid.label(record, names)}\n{list_record(record, most, by)}\n")
    return 0
