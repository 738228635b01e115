"""The user's code that something was measured from: files by their content, and what differs
between two. Core: standard library only."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from runner.machine import UserCode

Files = dict[str, str]
"""A file as it is named from where the user stands, and the hash of what is in it."""


EDITED = "changed after it was loaded"
"""In place of the hash of a file whose content is not that of the code that ran."""

_loaded: dict[str, tuple[float, int] | None] = {}
"""The time and the size of each file when its code was loaded."""


def watch_imports() -> None:
    """Note of each module that this process imports from now on what its file was then."""
    find_stats = SourceFileLoader.path_stats

    def path_stats(loader: Any, path: str) -> Any:
        note_loading(path)
        return find_stats(loader, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[assignment,method-assign]


def note_loading(path: str) -> None:
    """Note what a file is whose code is loaded now."""
    _loaded[os.path.realpath(path)] = _read_stats(path)


def _read_stats(path: str | Path) -> tuple[float, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 (each import does this)
    except OSError:
        return None
    return status.st_mtime, status.st_size


def hash_files(paths: Iterable[str]) -> Files:
    """Return the hash of each file that can be read; a module made without a file has none."""
    digests = {_name_file(path): _hash_file(Path(path)) for path in paths}
    return {name: digest for name, digest in sorted(digests.items()) if digest}


def merge_files(several: Iterable[Mapping[str, str]]) -> tuple[Files, list[str]]:
    """Return the files of several trials; and those that were not the same in all."""
    every_file: Files = {}
    changed: dict[str, None] = {}
    for files in several:
        changed |= dict.fromkeys(list_differing(every_file, files))
        every_file |= files
    return every_file, list(changed)


def list_differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the files that both have, with other content."""
    return [name for name in one if name in other and one[name] != other[name]]


def list_changed(files: Mapping[str, str]) -> list[str]:
    """Return the files whose content is not, any more, what it was."""
    return [name for name, digest in files.items() if _hash_file(Path(name)) != digest]


def describe_difference(a: UserCode | None, b: UserCode | None) -> str | None:
    """Return how the code of two records differs; None where it does not, as far as can be told."""
    names = list_differing(a.files, b.files) if a and b else []
    if not names or not a or not b:
        return None
    files = f"{', '.join(names)} {'differs' if len(names) == 1 else 'differ'}"
    return f"{files} ({_describe_revision(a)} against {_describe_revision(b)})"


def _describe_revision(code: UserCode) -> str:
    if not code.git or not code.git.revision:
        return "in no repository"
    return f"{code.git.revision[:10]}{' with changes' if code.git.dirty else ''}"


def _name_file(path: str) -> str:
    file, here = Path(path).resolve(), Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


def _hash_file(path: Path) -> str | None:
    try:
        if not path.is_file():  # a record may name a pipe, which nobody writes to
            return None
        loaded = _loaded.get(os.path.realpath(path))
        if loaded and loaded != _read_stats(path):
            return EDITED
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        return None
