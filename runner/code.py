"""Which code of the user's something was measured from: files by their content, and what differs
between two. Core: standard library only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Files = dict[str, str]
"""A file as it is named from where the user stands, and the hash of what is in it."""


def files_of(paths: Iterable[str]) -> Files:
    """Those that can be read; a module that was made without a file has nothing to hash."""
    found = {_name(path): _digest(Path(path)) for path in paths}
    return {name: digest for name, digest in sorted(found.items()) if digest}


def together(several: Iterable[Mapping[str, str]]) -> tuple[Files, list[str]]:
    """The files of several trials; and those that were not the same in all."""
    found: Files = {}
    changed: dict[str, None] = {}
    for files in several:
        changed |= dict.fromkeys(differing(found, files))
        found |= files
    return found, list(changed)


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The files that both have, with other content."""
    return [name for name in one if name in other and one[name] != other[name]]


def changed_since(files: Mapping[str, str]) -> list[str]:
    """The files that are not, any more, what they were."""
    return [name for name, digest in files.items() if _digest(Path(name)) != digest]


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """How the code of two records differs, from their environments; None where it does not, as far
    as can be told."""
    a, b = (each["code"] if isinstance(each.get("code"), dict) else {} for each in (one, other))
    names = differing(a.get("files", {}), b.get("files", {}))
    if not names:
        return None
    files = f"{', '.join(names)} {'differs' if len(names) == 1 else 'differ'}"
    return f"{files} ({_revision(a)} against {_revision(b)})"


def _revision(code: Mapping[str, Any]) -> str:
    git = code.get("git")
    if not git or not git.get("revision"):
        return "in no repository"
    return f"{git['revision'][:10]}{' with changes' if git['dirty'] else ''}"


def _name(path: str) -> str:
    file, here = Path(path).resolve(), Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        return None
