"""`clean`: deletes old outputs together with their runs in the tracking store."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from runner import places, tracking
from runner.errors import BadInput, StoreError
from runner.metrics import readable_bytes
from runner.running import folders
from runner.verbs import Parser, apart

if TYPE_CHECKING:
    from runner.config import Tracking
    from runner.tracking.store import Store

_EPILOG = """\
examples:
  python -m runner clean --older-than 30
      what is older than 30 days, and how much it is; nothing is deleted
  python -m runner clean --older-than 30 --yes
      deletes it
  python -m runner clean outputs/sweeps/2026-01-31/12-00-00-1a2b --yes
      this sweep; a folder above, outputs/sweeps/2026-01-31, means all that is in it

From the embedded store the MLflow runs and their artifacts are gone for good; a server
(tracking=server) has them in its trash until its `mlflow gc`. tracking=none leaves the store alone.
Only what is in outputs/ is ever deleted: runs, sweeps, fits, leaks and claims, each as a whole.
One that is still running is left.

Exit codes: 0 deleted (or, without --yes, told), 1 something had to be left, 2 bad input."""


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "clean",
        description="Says which runs and sweeps would be deleted; with --yes deletes them, and "
        "their runs in the tracking store.",
        epilog=_EPILOG,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folders in outputs/")
    parser.add_argument("--older-than", type=_days, metavar="DAYS", help="only what is older")
    parser.add_argument("--yes", action="store_true", help="delete it")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_intermixed_args(arguments)
    words, named = apart(options.paths)
    choice = _choice(words) if words or options.yes else None
    if not named and options.older_than is None:
        raise BadInput("clean: nothing is named.", "Name folders, or say --older-than DAYS.")
    folders = _found(named)
    if options.older_than is not None:
        folders = [each for each in folders if _started(each) < options.older_than]
    store = _store(choice) if choice and options.yes and folders else None
    results = []
    for folder in folders:
        results.append(_clean(folder, store, options.yes))
        if not options.json:
            print(_line(folder, results[-1]), flush=True)
    if options.json:
        print(json.dumps(results, indent=1))
    elif not results:
        print("There is nothing to delete.")
    elif not options.yes:
        total = readable_bytes(sum(each["bytes"] for each in results if not each["reason"]))
        print(f"{total} in all. Nothing is deleted yet: the same words and --yes do it.")
    return 1 if options.yes and not all(result["deleted"] for result in results) else 0


def _choice(words: Sequence[str]) -> Tracking:
    from runner.composing.store import chosen_store  # OmegaConf takes a while

    return chosen_store(words)


def _days(word: str) -> datetime:
    """The moment that is so many days ago."""
    with suppress(ValueError, OverflowError):
        if (days := float(word)) >= 0:
            return datetime.now() - timedelta(days=days)
    raise argparse.ArgumentTypeError(f"{word!r} is not a number of days")


def _found(paths: Sequence[Path]) -> list[Path]:
    """The whole runs and sweeps at or below `paths`, or all there are, each once."""
    outputs = places.outputs().resolve()
    places_to_look = [_inside(path, outputs) for path in paths] or [outputs]
    return [
        folder
        for folder in _all(outputs)
        if any(folder.is_relative_to(where) for where in places_to_look)
    ]


def _inside(path: Path, outputs: Path) -> Path:
    """The folder that is meant, if all in it can be."""
    where = Path(os.path.realpath(path))  # which takes links in a circle, too
    if not where.is_dir():
        raise BadInput(f"{path}: there is no such folder.", "Name a run's or a sweep's folder.")
    if not where.is_relative_to(outputs):
        raise BadInput(f"{path}: is not in {outputs}.", "RUNNER_OUTPUTS names another place.")
    parts = where.relative_to(outputs).parts
    if len(parts) > 3:
        whole = places.relative(outputs.joinpath(*parts[:3]))
        raise BadInput(f"{path}: is a part of {whole}.", "Name the whole, or a folder above it.")
    return where


def _all(outputs: Path) -> Iterator[Path]:
    """Every outputs/KIND/DATE/TIME that a command made; not what a link in its place points to."""
    for kind in get_args(folders.Kind):
        for folder in sorted((outputs / kind).glob("*/*")):
            if folder.is_dir() and folder.resolve() == folder and _is_ours(folder):
                yield folder


def _is_ours(folder: Path) -> bool:
    with suppress(ValueError):
        return bool(_started(folder) and re.fullmatch("-[0-9a-f]{4}", folder.name[8:]))
    return False


def _started(folder: Path) -> datetime:
    """As its name has it, which `folders.new_folder` made."""
    return datetime.strptime(f"{folder.parent.name} {folder.name[:8]}", "%Y-%m-%d %H-%M-%S")


def _store(choice: Tracking) -> Store | None:
    """The store that may hold the runs; None where there is none."""
    if choice.kind == "none":
        return None
    place = tracking.place_of(choice, places.outputs())
    if place.database and not place.database.exists():
        return None
    os.environ.update(tracking.environment(os.environ))
    from runner.tracking.store import open_quietly

    try:
        return open_quietly(place)
    except StoreError as error:
        raise StoreError(
            f"{error.problem}.", "Nothing is deleted. tracking=none leaves the store alone."
        ) from error


def _clean(folder: Path, store: Store | None, really: bool) -> dict[str, Any]:
    result: dict[str, Any] = {
        "folder": str(folder),
        "bytes": sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()),
        "tracked_runs": None,
        "deleted": False,
        "reason": None,
    }
    with folders.held(folder) as ours:
        if not (ours and all(_is_free(cell) for cell in folder.glob("*/"))):
            return {**result, "reason": "it is still running"}
        if not really:
            return result
        try:
            if store:  # first: what can't be deleted there is kept here, for another time
                result["tracked_runs"] = store.remove("-".join(folder.parts[-2:]))
            shutil.rmtree(folder)
        except (StoreError, OSError) as error:
            return {**result, "reason": str(error)}
    with suppress(OSError):  # other runs of that day
        folder.parent.rmdir()
    return {**result, "deleted": True}


def _is_free(cell: Path) -> bool:
    """Jobs of a cluster go on when the sweep that sent them has been left."""
    with folders.held(cell) as ours:
        return ours


def _line(folder: Path, result: dict[str, Any]) -> str:
    parts = [places.relative(folder), readable_bytes(result["bytes"])]
    if (tracked := result["tracked_runs"]) is not None:
        parts.append(f"{tracked} run{'' if tracked == 1 else 's'} in MLflow")
    if result["deleted"]:
        parts.append("deleted")
    elif result["reason"]:
        parts.append(f"left: {result['reason']}")
    return "  ".join(parts)
