"""A folder for the trials' temporary files, which outlives none of the processes that use it.

Core: standard library only. It is locked as long as one of them lives, however that ends and
whichever container it lives in; so what is found unlocked was left by a process that was killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "runner-trials-"


def make_folder() -> tuple[Path, int]:
    """Return a new folder and the descriptor that keeps it locked."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        with suppress(FileNotFoundError):  # taken for abandoned before it was locked, and removed
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if _is_locked(lock) and folder.exists():
                return folder, lock
            os.close(lock)


def remove_folder(folder: Path) -> None:
    """Remove it with all that is in it, as far as it can be removed."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the folders of processes that were killed, with nobody left to do it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it has gone meanwhile, or is another user's
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if _is_locked(lock):
                    remove_folder(folder)
            finally:
                os.close(lock)


def _is_locked(descriptor: int) -> bool:
    """Lock it for this process; return False if another one holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
