"""Bring records into the store: by hand with `publish`, or in a process beside a measurement.

    python -m runner.store.publisher PARENT LOCATION LOCK_SECONDS

is that process, which `background.py` starts. Each line that it reads names a folder, of a record
or of a sweep; each line that it writes, but for an empty one when it has begun, is what came of
one. The end of its input ends it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner import paths, records
from runner.engine.folders import is_own
from runner.errors import BadInput, RunnerError, StoreError, StoreOutOfReach, get_first_line
from runner.processes.process_tree import die_with_parent
from runner.store.location import StoreLocation

if TYPE_CHECKING:
    from runner.store.mlflow_store import MlflowStore


@dataclass(frozen=True)
class Published:
    """What came of a folder: its page in the store, or why it has none."""

    folder: str
    page: str | None = None
    table: str | None = None
    """The table of a sweep's cells, and the same side by side."""
    charts: str | None = None
    problem: str | None = None
    remedy: str = ""
    is_final: bool = False
    """True if the store would take no other folder either."""


@dataclass
class Publisher:
    """Brings records and sweeps into a store; one that is out of reach is asked no more."""

    store: MlflowStore
    writes_pages: bool = True
    """Write the page of a folder that has none yet, or an old one."""
    _silent: StoreOutOfReach | None = None

    def publish(self, folder: Path) -> Published:
        """Bring in the record in `folder`, or, where it holds none, the sweep."""
        is_record = (folder / records.RECORD_FILE).exists()
        act = self.store.publish if is_record else self.store.publish_sweep
        where = str(folder.resolve())
        try:
            if self._silent:
                raise self._silent
            if self.writes_pages:
                _write_page(folder)
            stored = act(folder)
            if stored.view is None:
                return Published(where, stored.page)
            return Published(where, stored.page, stored.view.runs, stored.view.comparison)
        except RunnerError as error:
            if isinstance(error, StoreOutOfReach):
                self._silent = error
            return describe_problem(error, where)


def describe_problem(error: RunnerError, folder: str = "") -> Published:
    """Return the problem of a folder, or of the whole store."""
    return Published(
        folder,
        problem=error.problem,
        remedy=error.remedy,
        is_final=isinstance(error, StoreError),
    )


def publish_all(folders: Iterable[Path], store: MlflowStore) -> Iterator[Published]:
    """Bring in records, then the sweeps that they are cells of; yield what came of each."""
    publisher = Publisher(store)
    sweeps: dict[Path, None] = {}
    for folder in folders:
        published = publisher.publish(folder)
        yield published
        if published.page and records.read_brief(folder).sweep:
            sweeps[folder.parent] = None
    for sweep in sweeps:
        yield publisher.publish(sweep)


def _write_page(folder: Path) -> None:
    """Write `report.html` where it is missing, older than the record, or somebody else's."""
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
        why = f"{type(error).__name__}: {get_first_line(error)}"[:300]
        print(f"runner: {paths.shorten(page)}: can't be written ({why}).", file=sys.stderr)


def main() -> None:
    """Publish the folders that are named on the input, until there are no more."""
    die_with_parent()
    if os.getppid() != int(sys.argv[1]):  # it had gone already
        return
    # Answers have the output to themselves: what else is printed goes to the log.
    answers = os.dup(1)
    os.dup2(2, 1)
    os.write(answers, b"\n")
    for published in _follow(StoreLocation(**json.loads(sys.argv[2])), float(sys.argv[3])):
        os.write(answers, json.dumps(asdict(published)).encode() + b"\n")
        if published.is_final:  # `publish` brings in the rest later
            break
    # Everything is in the store; MLflow's tidying up would take longer than a record.
    os._exit(0)


def _follow(location: StoreLocation, lock_seconds: float) -> Iterator[Published]:
    try:
        publisher = Publisher(_open(location, lock_seconds), writes_pages=False)
    except RunnerError as error:
        yield describe_problem(error)
        return
    for line in iter(sys.stdin.buffer.readline, b""):
        yield publisher.publish(Path(os.fsdecode(line.removesuffix(b"\n"))))


def _open(location: StoreLocation, lock_seconds: float) -> MlflowStore:
    gc.disable()  # while it imports: it would look through all that is there again and again
    from runner.store.mlflow_store import MlflowStore  # 1 to 2 s

    gc.freeze()
    gc.enable()
    store = MlflowStore(location, lock_seconds)
    store.prepare()
    return store


if __name__ == "__main__":
    main()
