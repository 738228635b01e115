"""The cells that the workers of a sweep take from: files, on a disk that all of them share.

    work.pickle             what is to be measured, written once
    order                   a request's number per line; one that was lost is added once more
    claims/LINE             a symbolic link to the name of the worker that has taken that line
    workers/NAME/journal    what the worker reports, a line each; beside it are its logs

To make a symbolic link is atomic on every file system that clusters share, and shows in the same
moment whose it is; locks are not to be had on all of them. A journal has one writer, is opened for
each line, and is opened again by whoever reads it, which is when a network file system looks for
what is new.
"""

from __future__ import annotations

import errno
import os
import pickle
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from runner import paths
from runner.engine.requests import Request
from runner.errors import BadInput

QUEUES = ".workers"
"""The folder in a sweep's folder; in it each start and each `resume` has a queue of its own."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Work:
    """Everything that a worker measures from."""

    folder: Path
    """The sweep's."""
    launcher: str
    seed: int
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Message:
    """One line of a worker's journal."""

    kind: Literal["started", "took", "alive", "done", "ended", "failed"]
    number: int | None = None
    """The request that was taken, or that is done."""
    why: str = ""


@dataclass
class CellQueue:
    """The queue in one folder, for the parent that fills it and for the workers that take."""

    folder: Path
    _order: list[int] = field(default_factory=list)
    """The lines that are known so far."""

    def __post_init__(self) -> None:
        self._claims = self.folder / "claims"
        self._work_file, self._order_file = self.folder / "work.pickle", self.folder / "order"

    @classmethod
    def create(cls, work: Work) -> CellQueue:
        """Return a new queue of all of the work; nobody takes from an older one any more."""
        queues = work.folder / QUEUES
        queues.mkdir(exist_ok=True)
        _keep_private(queues)
        older = list(queues.iterdir())
        for each in older:
            cls(each).close()
        queue = cls(queues / str(len(older)))
        queue._claims.mkdir(parents=True)
        with os.fdopen(os.open(queue._work_file, _CREATE, 0o600), "wb") as file:
            pickle.dump(work, file)
        for number in range(len(work.requests)):
            queue.add(number)
        return queue

    def find_worker_folder(self, name: str) -> Path:
        return self.folder / "workers" / name

    def add(self, number: int) -> None:
        """Have a request taken, by whoever comes to the end of the queue."""
        with self._order_file.open("a") as file:
            file.write(f"{number}\n")
        self._order.append(number)

    def count_unclaimed(self) -> int:
        """Return how many lines nobody has taken."""
        return len(self._order) - sum(1 for _ in self._claims.iterdir())

    def list_claims(self, name: str) -> list[int]:
        """Return the requests that a worker has taken, in the order of the queue."""
        owned = (each for each in self._claims.iterdir() if str(each.readlink()) == name)
        return [self._order[line] for line in sorted(int(each.name) for each in owned)]

    def close(self) -> None:
        """Have nobody take anything any more."""
        self._order_file.unlink(missing_ok=True)

    def read_work(self) -> Work:
        """Return what is to be measured; raise `BadInput` for a file that is not this user's alone:
        to load it is to run what it says."""
        with os.fdopen(os.open(self._work_file, _READ), "rb") as file:
            found = os.fstat(file.fileno())
            if (found.st_uid, found.st_mode) != (os.geteuid(), stat.S_IFREG | 0o600):
                raise BadInput(
                    f"{self._work_file}: is not this user's alone, and was not loaded.",
                    "Measure in a folder that only you may write to.",
                )
            work: Work = pickle.load(file)
        return work

    def take(self, name: str) -> Iterator[int]:
        """Yield the next request for this worker, again and again until none is left."""
        line = 0
        while line < len(order := self._read_order()):
            for number in order[line:]:
                line += 1
                with suppress(FileExistsError):  # another worker was sooner
                    (self._claims / str(line - 1)).symlink_to(name)
                    yield number
                    break  # meanwhile lines may have been added, or the queue closed

    def _read_order(self) -> list[int]:
        """Return the lines so far; none once the queue is closed."""
        try:
            lines = paths.read_text(self._order_file).splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [int(line) for line in lines if line.endswith("\n")]


def _keep_private(folder: Path) -> None:
    """Close a folder to everybody else: what lies in it is loaded, and may hold secrets. Raise
    `BadInput` for one that is somebody else's, or a link."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it is somebody else's")
            os.fchmod(descriptor, 0o700)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BadInput(
            f"{folder}: can't be closed to others ({error.strerror}).",
            "Start the sweep anew, in a folder of your own.",
        ) from None


@dataclass
class Journal:
    """The reports of a worker; read in another process, line by line as they are written."""

    folder: Path
    """The worker's."""
    _read_bytes: int = 0

    @property
    def _file(self) -> Path:
        return self.folder / "journal"

    def write(self, message: Message) -> None:
        """Write a message; it can be read when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(message) + b"\n")

    def read(self) -> list[Message]:
        """Return the messages since the last time."""
        try:
            with self._file.open("rb") as file:
                file.seek(self._read_bytes)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        whole = [line for line in lines if line.endswith(b"\n")]
        self._read_bytes += sum(map(len, whole))
        return [msgspec.json.decode(line, type=Message) for line in whole]
