"""The folders in outputs/: made, locked while somebody measures there, found for `resume=`."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from runner import paths, schema
from runner.cell import PLAN_FILE
from runner.errors import BadInput
from runner.records import LOG_FILE, RECORD_FILE

Kind = Literal["runs", "sweeps", "fits", "claims", "leaks"]


def is_own(folder: Path) -> bool:
    """Return True if this user's commands made the folder: outputs/KIND/DATE/TIME or below.

    The store's copies of records in outputs/artifacts/ may be a stranger's.
    """
    whole, outputs = folder.resolve(), paths.find_outputs().resolve()
    parts = whole.relative_to(outputs).parts if whole.is_relative_to(outputs) else ()
    return len(parts) >= 3 and parts[0] in get_args(Kind)


def name_new_folder(kind: Kind) -> Path:
    """`outputs/KIND/DATE/TIME`, not yet made; TIME carries what makes it unique."""
    now = datetime.now()
    name = f"{now:%H-%M-%S}-{secrets.token_hex(2)}"
    return paths.find_outputs() / kind / f"{now:%Y-%m-%d}" / name


@contextmanager
def lock_folder(folder: Path) -> Iterator[bool]:
    """Keep everybody else out of a folder meanwhile; yield False if somebody else is in it.

    The folder is made if it is not there. A kill lets go of it.
    """
    make_folder(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # a network file system that cannot lock a folder keeps nobody out
            pass
        yield True
    finally:
        os.close(descriptor)


@contextmanager
def lock_for_measuring(folder: Path, question: Mapping[str, Any] | None) -> Iterator[None]:
    """Lock a measurement's folder, and keep in it what is asked; raise `BadInput` if somebody else
    measures there, or if something else was asked there before."""
    with lock_folder(folder) as is_ours:
        if not is_ours:
            raise BadInput(
                f"resume={paths.shorten(folder)}: that measurement is still running.",
                "Wait until it ends, or end it first.",
            )
        if question is not None:
            _keep_question(folder, question)
        yield


def _keep_question(folder: Path, question: Mapping[str, Any]) -> None:
    path = folder / PLAN_FILE
    text = json.dumps({"schema": 2, **question})
    if not path.exists():
        paths.write_text(path, text)
        return
    asked = json.loads(text)  # a tuple is a list there
    there = read_json(path, {"cells": list[str]})
    # Before schema 2 a cell's id counted its trials, too: compare the words instead.
    left_out = "overrides" if there.get("schema") else "cells"
    names = [name for name in ("search", *question) if name not in (left_out, "words")]
    different = next((name for name in names if there.get(name) != asked.get(name)), None)
    if different:
        what = "way to search it" if different == "search" else "grid"
        raise BadInput(
            f"resume={paths.shorten(folder)}: that sweep was started with another {what}.",
            "Repeat the words it was started with (its plan.json has them), or start anew.",
        )


def make_folder(folder: Path) -> None:
    """Make a folder; raise `BadInput` where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{folder}: can't be made ({error.strerror}).",
            "RUNNER_OUTPUTS names the folder for results; name one that can be written to.",
        ) from None


def make_log(folder: Path) -> Path:
    """Return the log of a folder, which is made with it."""
    make_folder(folder)
    path = folder / LOG_FILE
    path.touch()
    return path


def find_folder(path: str) -> Path:
    """Return the folder that a command's PATH means; what `latest` is, is said on stderr."""
    if path != "latest":
        return Path(path)
    outputs = paths.find_outputs()
    runs = outputs.glob(f"runs/*/*/{RECORD_FILE}")
    cells = outputs.glob(f"sweeps/*/*/*/{RECORD_FILE}")
    known = [file.parent for file in runs] + [file.parent.parent for file in cells]
    if not known:
        raise BadInput("latest: there is no run and no sweep yet.", "Make one first.")
    folder = _choose_latest(known)
    print(f"latest: {paths.shorten(folder)}", file=sys.stderr)
    return folder


def _choose_latest(folders: Sequence[Path]) -> Path:
    """Return the latest of some DATE/TIME. One of the future was made while the clock was wrong,
    and would be the latest for years; a day is left for zones of time."""
    tomorrow = f"{datetime.now() + timedelta(days=1):%Y-%m-%d}"
    past = [folder for folder in folders if folder.parent.name <= tomorrow]
    return max(past or folders, key=lambda folder: (folder.parent.name, folder.name))


def find_resumable(path: str, kind: Kind, what: str) -> Path:
    """Return the folder that `resume=` means: the one it names, or the latest one."""
    if path == "latest":
        plans = (paths.find_outputs() / kind).glob(f"*/*/{PLAN_FILE}")
        known = [file.parent for file in plans]
        if not known:
            raise BadInput(f"resume=latest: there is no {what} yet.", "Leave it out to start one.")
        latest = _choose_latest(known)
        print(f"latest: {paths.shorten(latest)}", file=sys.stderr)
        return latest
    folder = Path(os.path.realpath(path))  # which takes links in a circle, too
    if not (folder / PLAN_FILE).is_file():
        raise BadInput(f"resume={path}: is not the folder of a {what}.", "Name one, or say latest.")
    if not is_own(folder):
        link = next((file for file in folder.rglob("*") if file.is_symlink()), None)
        if link:
            raise BadInput(
                f"resume={path}: {link.relative_to(folder)} is a link, which may lead anywhere.",
                "Nothing is written into a folder from elsewhere that holds links.",
            )
    return folder


def choose_folder(kind: Kind, resume: str | None, what: str) -> Path:
    """Return the folder that is gone on with, or a new one."""
    return find_resumable(resume, kind, what) if resume else name_new_folder(kind)


def read_json(file: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an earlier command kept in its folder; these names and types must be in it."""
    try:
        text = paths.read_text(file)
        schema.decode(msgspec.defstruct("Noted", wanted.items()), text)
        return schema.decode(dict[str, Any], text)
    except (OSError, schema.Unreadable) as error:
        raise BadInput(
            f"{paths.shorten(file)}: can't be read ({str(error)[:200]}).",
            "The records beside it are not lost, but resuming needs this file: start anew.",
        ) from None
