"""`clean`: deletes old outputs together with their runs in the tracking store."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from runner import lifecycle, places, tracking
from runner.errors import BadInput
from runner.metrics import readable_bytes

if TYPE_CHECKING:
    from runner.config import Tracking
    from runner.tracking.store import Store

_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d-\d\d-\d\d.*"

_EPILOG = """\
examples:
  python -m runner clean --older-than 30 --dry-run
      what is older than 30 days, and how much it is; without --dry-run it is deleted
  python -m runner clean outputs/sweeps/2026-01-31/12-00-00-1a2b
      this sweep; a folder above, outputs/sweeps/2026-01-31, means all that is in it

It asks nothing. From the embedded store the runs and their artifacts are gone for good; a server
(tracking=server) keeps them in its trash until its `mlflow gc`. tracking=none leaves the store
alone. A sweep that is still running is left."""


class _Parser(argparse.ArgumentParser):
    """Its errors are the runner's: one message, and what to do."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"clean: {message}.", "See python -m runner clean --help.")


def main(arguments: Sequence[str]) -> int:
    parser = _Parser(
        prog="python -m runner clean",
        description="Deletes runs and sweeps, with their runs in the tracking store.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folders in outputs/")
    parser.add_argument("--older-than", type=float, metavar="DAYS", help="only what is older")
    parser.add_argument("--dry-run", action="store_true", help="say what would be deleted")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_intermixed_args(arguments)
    words = [word for word in options.paths if word.startswith(("tracking=", "tracking."))]
    choice = tracking.chosen(words)
    paths = [Path(word) for word in options.paths if word not in words]
    if not paths and options.older_than is None:
        raise BadInput("clean: nothing is named.", "Name folders, or say --older-than DAYS.")
    folders = list(dict.fromkeys(each for path in paths or [None] for each in _found(path)))
    if options.older_than is not None:
        limit = datetime.now() - timedelta(days=options.older_than)
        folders = [folder for folder in folders if _started(folder) < limit]
    store = None if options.dry_run or not folders else _store(choice)
    results = []
    for folder in folders:
        result = _clean(folder, store, options.dry_run)
        results.append(result)
        if not options.json:
            print(_line(folder, result), flush=True)
    if options.json:
        print(json.dumps(results, indent=1))
    elif not results:
        print("There is nothing to delete.")
    return 0


def _found(path: Path | None) -> Iterator[Path]:
    """The whole runs and sweeps at or below `path`: outputs/KIND/DATE/TIME, and nothing else."""
    outputs = places.outputs()
    where = outputs if path is None else path.resolve()
    if not where.is_dir():
        if path is None:
            return
        raise BadInput(f"{path}: there is no such folder.", "Name a run's or a sweep's folder.")
    if not where.is_relative_to(outputs):
        raise BadInput(f"{path}: is not in {outputs}.", "RUNNER_OUTPUTS names another place.")
    parts = where.relative_to(outputs).parts
    if len(parts) > 3:
        whole = lifecycle.relative(outputs.joinpath(*parts[:3]))
        raise BadInput(f"{path}: is a part of {whole}.", "Name the whole, or a folder above it.")
    for folder in sorted(where.glob("/".join("*" * (3 - len(parts))) or ".")):
        _, date, time = folder.relative_to(outputs).parts
        if folder.is_dir() and re.fullmatch(_DATE, date) and re.fullmatch(_TIME, time):
            yield folder


def _started(folder: Path) -> datetime:
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

    return open_quietly(place)


def _clean(folder: Path, store: Store | None, dry_run: bool) -> dict[str, object]:
    result: dict[str, object] = {
        "folder": str(folder),
        "bytes": sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()),
        "tracked_runs": None,
        "deleted": False,
    }
    if _is_running(folder):
        return {**result, "reason": "it is still running"}
    if dry_run:
        return {**result, "reason": "--dry-run"}
    if store:  # first: what can't be deleted there is kept here, to be deleted another time
        result["tracked_runs"] = store.remove("-".join(folder.parts[-2:]))
    shutil.rmtree(folder)
    with suppress(OSError):  # other runs of that day
        folder.parent.rmdir()
    return {**result, "deleted": True}


def _is_running(folder: Path) -> bool:
    """Whether somebody holds the sweep's plan, as `sweep.open_plan` does."""
    with suppress(FileNotFoundError), (folder / "plan.json").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _line(folder: Path, result: dict[str, object]) -> str:
    size = readable_bytes(float(str(result["bytes"])))
    tracked = result["tracked_runs"]
    with_runs = "" if tracked is None else f", {tracked} run{'' if tracked == 1 else 's'} in MLflow"
    word = "deleted" if result["deleted"] else f"left ({result['reason']})"
    return f"{lifecycle.relative(folder)}  {size}{with_runs}  {word}"
