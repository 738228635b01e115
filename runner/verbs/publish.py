"""`publish`: brings records into the tracking store, as often as you like, with one result."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from runner import lifecycle, places, records, tracking
from runner.errors import BadInput, RunnerError
from runner.verbs import Parser


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "publish",
        description="Brings the records of runs and sweeps into the tracking store. "
        "A record that is there already is not there twice.",
        epilog="Example: python -m runner publish outputs/runs/2025-01-31 tracking=local",
    )
    parser.add_argument("path", nargs="+", help="a run's or a sweep's folder, or one above them")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_args(arguments)
    words = [word for word in options.path if word.startswith(("tracking=", "tracking."))]
    store_choice = tracking.chosen(words)
    paths = [Path(word) for word in options.path if word not in words]
    if not paths:
        raise BadInput("publish: no folder is named.", "Name a run's or a sweep's folder.")
    place = tracking.place_of(store_choice, places.outputs())
    copies = places.outputs() / "artifacts"  # the store's own copies of records lie there
    folders = [
        folder
        for folder in dict.fromkeys(found for path in paths for found in records.find(path))
        if not folder.resolve().is_relative_to(copies.resolve())
    ]

    os.environ.update(tracking.environment(os.environ))
    from runner.tracking.store import open_quietly

    store = open_quietly(place)
    results = []
    for folder in folders:
        result = {"folder": str(folder.resolve()), "page": None, "problem": None}
        try:
            result["page"] = store.publish(folder).page
        except RunnerError as error:
            result["problem"] = error.problem
        results.append(result)
        if not options.json:
            outcome = result["page"] or f"not stored: {result['problem']}"
            print(f"{lifecycle.relative(folder)}  {outcome}", flush=True)
    if options.json:
        print(json.dumps(results, indent=1))
    return 1 if any(result["problem"] for result in results) else 0
