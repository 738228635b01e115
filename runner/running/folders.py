"""The folders in outputs/: made, held while somebody works in them, found again for `resume=`."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from runner import places, shape
from runner.errors import BadInput
from runner.records import LOG_FILE, RECORD_FILE

Kind = Literal["runs", "sweeps", "fits", "claims", "leaks"]


def new_folder(kind: Kind) -> Path:
    """`outputs/KIND/DATE/TIME`, not yet made; TIME carries what makes it unique."""
    now = datetime.now()
    name = f"{now:%H-%M-%S}-{secrets.token_hex(2)}"
    return places.outputs() / kind / f"{now:%Y-%m-%d}" / name


@contextmanager
def held(folder: Path, wait: bool = False) -> Iterator[bool]:
    """Nobody else can hold the folder meanwhile; or, if it yields False, somebody else does. The
    folder is made if it is not there. A kill lets go of it."""
    make(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        except OSError:  # a network file system that can't lock a folder keeps nobody out
            pass
        yield True
    finally:
        os.close(descriptor)


def make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{folder}: can't be made ({error.strerror}).",
            "RUNNER_OUTPUTS names the folder for results; name one that can be written to.",
        ) from None


def log_file(folder: Path) -> Path:
    make(folder)
    path = folder / LOG_FILE
    path.touch()
    return path


def named(said: str) -> Path:
    """The folder that a command's PATH means: the one it names, or the latest run or sweep."""
    if said != "latest":
        return Path(said)
    outputs = places.outputs()
    runs = outputs.glob(f"runs/*/*/{RECORD_FILE}")
    cells = outputs.glob(f"sweeps/*/*/*/{RECORD_FILE}")
    known = [file.parent for file in runs] + [file.parent.parent for file in cells]
    if not known:
        raise BadInput("latest: there is no run and no sweep yet.", "Make one first.")
    return max(known, key=lambda folder: (folder.parent.name, folder.name))


def earlier(said: str, kind: Kind, file: str, what: str) -> Path:
    """The folder that `resume=` means: the one it names, or the latest. Each of them has `file`."""
    if said == "latest":
        known = sorted((places.outputs() / kind).glob(f"*/*/{file}"))
        if not known:
            raise BadInput(f"resume=latest: there is no {what} yet.", "Leave it out to start one.")
        return known[-1].parent
    folder = Path(os.path.realpath(said))  # which takes links in a circle, too
    if not (folder / file).is_file():
        raise BadInput(f"resume={said}: is not the folder of a {what}.", "Name one, or say latest.")
    return folder


def kept(file: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What an earlier command noted in its folder, of which these names and types are needed."""
    try:
        found: dict[str, Any] = shape.from_text(places.text_of(file))
        for name, kind in wanted.items():
            shape.check(kind, found[name], name)
    except (OSError, *shape.UNREADABLE) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise BadInput(
            f"{places.relative(file)}: can't be read ({why[:200]}).",
            "The records beside it are not lost, but resuming needs this file: start anew.",
        ) from None
    return found
