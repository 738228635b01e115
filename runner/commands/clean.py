"""`clean`: deletes old outputs together with their runs in the tracking store."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from runner import paths
from runner.commands import Parser
from runner.commands._store import choose_store, open_store
from runner.engine import folders
from runner.errors import BadInput, StoreError
from runner.metrics import format_bytes
from runner.render.words import count_things
from runner.store.location import locate_store

if TYPE_CHECKING:
    from runner.config import Tracking
    from runner.store.mlflow_store import MlflowStore

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


@dataclass(frozen=True)
class Cleaned:
    """A run's or a sweep's folder, and what became of it: the fields are those of `--json`."""

    folder: str
    bytes: int
    tracked_runs: int | None = None
    """The number of its runs in the tracking store; None where no store was looked into."""
    mlflow_runs: tuple[str, ...] = ()
    """The ids of those runs."""
    deleted: bool = False
    reason: str | None = None
    """Why it was left."""

    @property
    def line(self) -> str:
        parts = [paths.shorten(Path(self.folder)), format_bytes(self.bytes)]
        if self.tracked_runs is not None:
            one = f" ({self.mlflow_runs[0]})" if self.tracked_runs == 1 else ""
            parts.append(f"{count_things(self.tracked_runs, 'run')} in MLflow{one}")
        if self.deleted:
            parts.append("deleted")
        elif self.reason:
            parts.append(f"left: {self.reason}")
        return "  ".join(parts)


def make_parser() -> Parser:
    parser = Parser(
        "clean",
        "Says which runs and sweeps would be deleted; with --yes deletes them, and "
        "their runs in the tracking store.",
        _EPILOG,
        settings=["tracking"],
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folders in outputs/")
    parser.add_argument("--older-than", type=_parse_days, metavar="DAYS", help="only what is older")
    parser.add_argument("--yes", action="store_true", help="delete it")
    parser.add_json()
    return parser


def run(options: argparse.Namespace) -> int:
    """Delete what is named, or say what would go; return 1 if something had to be left."""
    named = [Path(path) for path in options.paths]
    choice = choose_store(options.settings)
    if not named and options.older_than is None:
        raise BadInput("clean: nothing is named.", "Name folders, or say --older-than DAYS.")
    folders = _find_folders(named, options.older_than or datetime.max)
    store = _open_store(choice) if folders else None
    results = []
    for folder in folders:
        results.append(_clean(folder, store, is_sure=options.yes))
        if not options.json:
            print(results[-1].line, flush=True)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    elif not results:
        print("There is nothing to delete.")
    elif not options.yes:
        total = format_bytes(sum(result.bytes for result in results if not result.reason))
        print(f"{total} in all. Nothing was deleted. Add --yes to delete.")
    return 1 if options.yes and not all(result.deleted for result in results) else 0


def _parse_days(word: str) -> datetime:
    """Return the moment that is so many days ago."""
    with suppress(ValueError, OverflowError):
        if (days := float(word)) >= 0:
            return datetime.now() - timedelta(days=days)
    raise argparse.ArgumentTypeError(f"{word!r} is not a number of days")


def _find_folders(named: Sequence[Path], before: datetime) -> list[Path]:
    """Return every outputs/KIND/DATE/TIME that a command made before that, at or below `named`
    where something is; nothing behind a link."""
    outputs = paths.find_outputs().resolve()
    roots = [_resolve(path, outputs) for path in named] or [outputs]
    return [
        folder
        for kind in get_args(folders.Kind)
        for folder in sorted((outputs / kind).glob("*/*"))
        if any(folder.is_relative_to(root) for root in roots)
        if folder.is_dir() and folder.resolve() == folder
        if (start := _parse_start(folder)) and start < before
    ]


def _resolve(path: Path, outputs: Path) -> Path:
    """Return the folder that is meant; raise `BadInput` unless all in it may be deleted."""
    where = Path(os.path.realpath(path))  # which takes links in a circle, too
    if not where.is_dir():
        raise BadInput(f"{path}: there is no such folder.", "Name a run's or a sweep's folder.")
    if not where.is_relative_to(outputs):
        raise BadInput(f"{path}: is not in {outputs}.", "RUNNER_OUTPUTS names another place.")
    parts = where.relative_to(outputs).parts
    if len(parts) > 3:
        whole = paths.shorten(outputs.joinpath(*parts[:3]))
        raise BadInput(f"{path}: is a part of {whole}.", "Name the whole, or a folder above it.")
    return where


def _parse_start(folder: Path) -> datetime | None:
    """Return the time in its name; None where `folders.name_new_folder` did not make it."""
    time, code = folder.name[:8], folder.name[8:]
    with suppress(ValueError):
        if re.fullmatch("-[0-9a-f]{4}", code):
            return datetime.strptime(f"{folder.parent.name} {time}", "%Y-%m-%d %H-%M-%S")
    return None


def _open_store(choice: Tracking) -> MlflowStore | None:
    """Return the store that may hold the runs; None where there is none."""
    if choice.kind == "none":
        return None
    location = locate_store(choice, paths.find_outputs())
    if location.database and not location.database.exists():
        return None
    try:
        return open_store(location)
    except StoreError as error:
        raise StoreError(
            f"{error.problem}.", "Nothing is deleted. tracking=none leaves the store alone."
        ) from error


def _clean(folder: Path, store: MlflowStore | None, *, is_sure: bool) -> Cleaned:
    size = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
    result = Cleaned(str(folder), size)
    with folders.lock_folder(folder) as is_free:
        if not is_free:
            return replace(result, reason="it is still running")
        try:
            if store:  # first: what can't be deleted there is kept here, for another time
                name = "-".join(folder.parts[-2:])
                runs = store.remove(name) if is_sure else store.list_runs(name)
                result = replace(result, tracked_runs=len(runs), mlflow_runs=tuple(runs))
            if not is_sure:
                return result
            shutil.rmtree(folder)
        except (StoreError, OSError) as error:
            return replace(result, reason=str(error))
    with suppress(OSError):  # other runs of that day
        folder.parent.rmdir()
    return replace(result, deleted=True)
