"""`again`: repeats a recorded run, and says what differs now."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from runner.commands import Parser
from runner.commands._measuring import find_answer

if TYPE_CHECKING:
    from runner.engine.answers import Answer

_EPILOG = """\
examples:
  python -m runner again latest
      the latest run once more, in a folder of its own
  python -m runner again outputs/sweeps/2026-01-31/12-00-00/3
      one cell of a sweep, as a run
  python -m runner again outputs/runs/2026-01-31/12-00-00 tracking=none

Go to the folder that your own code was run from; what differs now from then (versions, code,
machine) is listed, and the figures stand side by side. The exit code is the new run's. A record
from elsewhere than this folder's outputs names code that somebody else chose: its command is shown,
and it runs with --yes only.
"""


def make_parser() -> Parser:
    parser = Parser(
        "again",
        "Repeats the run of a record, and says what differs now.",
        _EPILOG,
        settings=["tracking"],
        offers=["latest"],
    )
    parser.add_argument(
        "path", metavar="PATH", help="a run's folder, or that of a sweep's cell, or latest"
    )
    parser.add_argument(
        "--yes", action="store_true", help="also run what a record from elsewhere names"
    )
    parser.add_json()
    return parser


def run(options: argparse.Namespace) -> int:
    """Repeat the run and print both side by side; return the new run's exit code."""

    def open_answer() -> Answer:
        from runner.commands import _again

        then, record = _again.find_run(options.path)
        _again.check_origin(then, record, options.yes)
        return _again.RepeatedRun(then, record, options.settings, options.json)

    return find_answer(open_answer, is_likely=True)
