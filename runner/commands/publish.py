"""`publish`: brings records into the tracking store, as often as you like, with one result."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from runner import paths, records
from runner.commands import Parser
from runner.commands._store import choose_store, open_store
from runner.config import Tracking
from runner.engine import folders
from runner.errors import BadInput, RunnerError, StoreOutOfReach
from runner.store.location import StoredRun, locate_store


def make_parser() -> Parser:
    parser = Parser(
        "publish",
        "Brings the records of runs and sweeps into the tracking store. "
        "A record that is there already is not there twice. A run has its folder's files among its "
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
    results = []
    for folder, what, page, problem in publish(named, choose_store(options.settings)):
        results.append({"folder": str(folder.resolve()), "page": page, "problem": problem})
        if not options.json:
            print(f"{paths.shorten(folder)}{what}  {page or f'not stored: {problem}'}", flush=True)
    if options.json:
        print(json.dumps(results, indent=1))
    return 1 if any(result["problem"] for result in results) else 0


def publish(
    named: Sequence[Path], choice: Tracking
) -> Iterator[tuple[Path, str, str | None, str | None]]:
    """Bring in the records at or below the paths that are named, then the reports of their sweeps.

    Yield each folder, what of it was brought in, its page in the store or why it has none.
    """
    outputs = paths.find_outputs()
    location = locate_store(choice, outputs)
    copies = (outputs / "artifacts").resolve()  # the store's own copies of records lie there
    found = dict.fromkeys(each for path in named for each in records.find(path))
    folders = [each for each in found if not each.resolve().is_relative_to(copies)]

    store = open_store(location)
    silent: StoreOutOfReach | None = None

    def bring_in(folder: Path, act: Callable[[Path], StoredRun]) -> tuple[str | None, str | None]:
        nonlocal silent
        try:
            if silent:
                raise silent  # each record would wait for it anew
            _write_page(folder)
            return act(folder).page, None
        except RunnerError as error:
            silent = error if isinstance(error, StoreOutOfReach) else None
            return None, error.problem

    sweeps: dict[Path, None] = {}
    for folder in folders:
        page, problem = bring_in(folder, store.publish)
        yield folder, "", page, problem
        if page and records.read_brief(folder).sweep:
            sweeps[folder.parent] = None
    for sweep in sweeps:
        yield sweep, ": report", *bring_in(sweep, store.publish_sweep)


def _write_page(folder: Path) -> None:
    """Write `report.html` where it is missing, older than the record, or somebody else's."""
    from runner.engine.folders import is_own
    from runner.render import html

    page, record = folder / html.REPORT_FILE, folder / records.RECORD_FILE
    is_old = record.exists() and page.exists() and page.stat().st_mtime < record.stat().st_mtime
    if is_own(folder) and page.exists() and not is_old:
        return
    try:
        html.write_page(folder)
    except BadInput:
        raise
    except Exception as error:  # a folder that is not ours to write to: stored without a page
        why = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        print(f"runner: {paths.shorten(page)}: can't be written ({why}).", file=sys.stderr)
