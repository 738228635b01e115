"""`publish`: brings records into the tracking store, as often as you like, with one result."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from runner import paths, records
from runner.commands import Parser
from runner.commands._store import choose_store, open_store
from runner.engine import folders
from runner.errors import BadInput
from runner.store.location import locate_store
from runner.store.publisher import publish_all


def make_parser() -> Parser:
    parser = Parser(
        "publish",
        "Brings the records of runs and sweeps into the tracking store. "
        "Publishing again creates no duplicate. A run has its folder's files among its "
        "artifacts, and its page, report.html, which is written where there is none. A sweep is "
        "a run of its own, above those of its cells, with the sweep's table and report.",
        "Example: python -m runner publish outputs/runs/2025-01-31 tracking=local",
        settings=["tracking"],
        offers=["latest"],
    )
    parser.add_argument(
        "path",
        nargs="*",
        help="a run's or a sweep's folder, or one above them; tracking=... as for a run",
    )
    parser.add_json()
    return parser


def run(options: argparse.Namespace) -> int:
    """Bring in every record that is named; return 1 if one is not in the store."""
    named = [folders.find_folder(path) for path in options.path]
    if not named:
        raise BadInput("publish: no folder is named.", "Name a run's or a sweep's folder.")
    location = locate_store(choose_store(options.settings), paths.find_outputs())
    results = []
    for published in publish_all(_list_folders(named), open_store(location)):
        is_run = (Path(published.folder) / records.RECORD_FILE).exists()
        what = "" if is_run else ": report"
        page, problem = published.page, published.problem
        results.append({"folder": published.folder, "page": page, "problem": problem})
        if not options.json:
            shown = page or f"not stored: {problem}"
            print(f"{paths.shorten(Path(published.folder))}{what}  {shown}", flush=True)
    if options.json:
        print(json.dumps(results, indent=1))
    return 1 if any(result["problem"] for result in results) else 0


def _list_folders(named: Sequence[Path]) -> list[Path]:
    """Return those with a record at or below the paths that are named, each once.

    The store's own copies of records lie among its artifacts: they don't count.
    """
    copies = (paths.find_outputs() / "artifacts").resolve()
    folders = dict.fromkeys(folder for path in named for folder in records.find(path))
    return [folder for folder in folders if not folder.resolve().is_relative_to(copies)]
