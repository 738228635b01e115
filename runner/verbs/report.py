"""`report`: writes report.html in a run's or a sweep's folder, or prints what a peak is made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import places
from runner.errors import BadInput
from runner.verbs import Parser

if TYPE_CHECKING:
    from runner.terminal import peak

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


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "report",
        description="Writes report.html in a run's or a sweep's folder and prints where. In a "
        "run's folder also timeline.json (for Perfetto), allocations.folded (for flame graphs), "
        "allocations.csv.",
        epilog=_EPILOG,
    )
    parser.add_argument("path", metavar="PATH", help="a run's or a sweep's folder, or latest")
    parser.add_argument(
        "--peak", action="store_true", help="print what the peak is made of instead"
    )
    parser.add_argument(
        "--by", choices=("line", "layer", "op"), help="how --peak is grouped; line by default"
    )
    parser.add_argument("--pictures", action="store_true", help="also the pictures, as PNG")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_intermixed_args(arguments)

    # Imported late, so that --help and a mistyped option are answered at once.
    from runner import records
    from runner.running import folders

    if options.by and not options.peak:
        raise BadInput("--by says how --peak is printed.", "Say --peak, too.")
    path = folders.named(options.path)
    if not path.exists():
        raise BadInput(f"{path}: there is no such folder.", "Name a run's or a sweep's folder.")
    found = records.find(path)
    folder = path if path.is_dir() else path.parent
    if options.peak:
        return _print_peaks(found, options.json, options.by or "line")
    return _write(folder, found, options.pictures, options.json)


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


def _print_peaks(folders: Sequence[Path], as_json: bool, by: peak.By) -> int:
    """A table a run; in a sweep the largest groups of each cell."""
    from runner import records
    from runner.judging.selection import Grid
    from runner.report.peak import MOST_GROUPS
    from runner.terminal import peak

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
    most = MOST_GROUPS if len(found) == 1 else 8
    names = grid.varied or ["scenario", "execution", "batch_size"]
    for _, record in found:
        print(f"{grid.label(record, names)}")
        if record.allocations and record.allocations.groups:
            print(peak.of(record.allocations, most, by))
        else:
            why = record.unavailable.get("tensor_peak_bytes", "allocations were not recorded")
            print(f"unknown: {why}")
        print()
    return 0
