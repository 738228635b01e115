"""`report`: writes report.html in a run's or a sweep's folder, or prints what a peak is made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner import places
from runner.errors import BadInput
from runner.verbs import Parser

_EPILOG = """\
examples:
  python -m runner report outputs/sweeps/2026-01-31/12-00-00
      writes report.html there: one file that loads nothing, to be opened or mailed
  python -m runner report outputs/runs/2026-01-31/12-00-00 --peak
      prints what was live at the peak, by op, shape and dtype; writes nothing
"""


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "report",
        description="Writes report.html in a run's or a sweep's folder and prints where. In a "
        "run's folder also timeline.json (for Perfetto), allocations.folded (for flame graphs), "
        "allocations.csv.",
        epilog=_EPILOG,
    )
    parser.add_argument("path", metavar="PATH", help="a run's or a sweep's folder")
    parser.add_argument(
        "--peak", action="store_true", help="print what the peak is made of instead"
    )
    parser.add_argument("--pictures", action="store_true", help="also the pictures, as PNG")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_intermixed_args(arguments)

    # Imported late, so that --help and a mistyped option are answered at once.
    from runner import records

    path = Path(options.path)
    if not path.exists():
        raise BadInput(f"{path}: there is no such folder.", "Name a run's or a sweep's folder.")
    folders = records.find(path)
    folder = path if path.is_dir() else path.parent
    if options.peak:
        return _print_peaks(folders, options.json)
    return _write(folder, folders, options.pictures, options.json)


def _write(folder: Path, folders: Sequence[Path], pictures: bool, as_json: bool) -> int:
    from runner import report

    try:
        written = [report.write(folder)]
        if folders == [folder]:
            written += report.views(folder)
        if pictures:
            written += report.pictures(folder)
    except OSError as error:
        raise BadInput(
            f"{error.filename}: can't be written ({error.strerror}).",
            "Copy the folder to where you may write, and name that.",
        ) from error
    if as_json:
        print(json.dumps([str(each.resolve()) for each in written], indent=1))
    else:
        print("\n".join(places.relative(each.resolve()) for each in written))
    return 0


def _print_peaks(folders: Sequence[Path], as_json: bool) -> int:
    """A table a run; in a sweep the largest groups of each cell."""
    from runner import records
    from runner.report import peak
    from runner.report.grid import Grid

    found = [(folder, records.read(folder)) for folder in folders]
    if as_json:
        plain: list[dict[str, Any]] = [
            {
                "folder": str(folder.resolve()),
                "cell": record.cell,
                "allocations": record.allocations and record.allocations.to_json(),
            }
            for folder, record in found
        ]
        print(json.dumps(plain, indent=1))
        return 0
    grid = Grid([record for _, record in found])
    most = peak.MOST_GROUPS if len(found) == 1 else 8
    names = grid.varied or ["scenario", "execution", "batch_size"]
    for _, record in found:
        print(f"{grid.label(record, names)}")
        if record.allocations and record.allocations.groups:
            print(peak.terminal(record.allocations, most))
        else:
            why = record.unavailable.get("tensor_peak_bytes", "allocations were not recorded")
            print(f"unknown: {why}")
        print()
    return 0
