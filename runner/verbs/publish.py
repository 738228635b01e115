"""`publish`: brings records into the tracking store, as often as you like, with one result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from runner import places, records, tracking
from runner.errors import BadInput, RunnerError, StoreOutOfReach
from runner.tracking import TrackedRun
from runner.verbs import Parser, apart


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "publish",
        description="Brings the records of runs and sweeps into the tracking store. "
        "A record that is there already is not there twice. A run has its pictures among its "
        "artifacts, a sweep's first run those of the sweep and its report.",
        epilog="Example: python -m runner publish outputs/runs/2025-01-31 tracking=local",
    )
    parser.add_argument(
        "path",
        nargs="+",
        help="a run's or a sweep's folder, or one above them; tracking=... as for a run",
    )
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_intermixed_args(arguments)
    words, paths = apart(options.path)
    if not paths:
        raise BadInput("publish: no folder is named.", "Name a run's or a sweep's folder.")

    from runner.composing.store import chosen_store  # OmegaConf takes a while

    place = tracking.place_of(chosen_store(words), places.outputs())
    copies = places.outputs() / "artifacts"  # the store's own copies of records lie there
    folders = [
        folder
        for folder in dict.fromkeys(found for path in paths for found in records.find(path))
        if not folder.resolve().is_relative_to(copies.resolve())
    ]

    os.environ.update(tracking.environment(os.environ))
    from runner.tracking.store import open_quietly

    store = open_quietly(place)
    results: list[dict[str, str | None]] = []
    silent: StoreOutOfReach | None = None

    def bring_in(folder: Path, publish: Callable[[Path], TrackedRun], what: str = "") -> bool:
        nonlocal silent
        result: dict[str, str | None] = {"folder": str(folder.resolve()), "page": None}
        try:
            if silent:
                raise silent  # each record would wait for it anew
            result |= {"page": publish(folder).page, "problem": None}
        except StoreOutOfReach as error:
            silent, result["problem"] = error, error.problem
        except RunnerError as error:
            result["problem"] = error.problem
        except Exception as error:  # one bad record is no reason to leave out those that follow
            result["problem"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        results.append(result)
        if not options.json:
            outcome = result["page"] or f"not stored: {result['problem']}"
            print(f"{places.relative(folder)}{what}  {outcome}", flush=True)
        return result["problem"] is None

    stored = [folder for folder in folders if bring_in(folder, store.publish)]
    cells = (folder for folder in stored if records.read_brief(folder).sweep)
    for sweep in dict.fromkeys(cell.parent for cell in cells):
        bring_in(sweep, store.publish_sweep, ": report and pictures")
    if options.json:
        print(json.dumps(results, indent=1))
    return 1 if any(result["problem"] for result in results) else 0
