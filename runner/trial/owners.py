"""Whose code a file is: an installed package's, ours, Python's or the user's. Child side."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache

from runner import places

USERS, PYTHON, SCENARIO, RUNNER = "the user", "Python", "scenarios", "runner"
OURS = {SCENARIO: places.scenarios(), RUNNER: places.package()}
"""Scenarios first: in an installed copy they lie inside the package."""
_PYTHONS = f"{sysconfig.get_path('stdlib')}/"
LIBRARIES = (PYTHON, "tensorflow", "keras", "numpy")


@cache
def owner(file: str) -> str:
    """An installed package's name, or one of those above."""
    for name, folder in OURS.items():
        if file.startswith(f"{folder}/"):
            return name
    *folders, last = file.split("/")
    for packages in ("site-packages", "dist-packages"):
        if packages in folders:
            return [*folders, last][folders.index(packages) + 1]
    made = file.startswith("<") or last.startswith("__autograph_generated_file")
    return PYTHON if made or file.startswith(_PYTHONS) else USERS


_not_users: set[str] = set()
"""Names of modules, so that a child need not look at thousands that it shares with its server."""


def note_what_is_loaded() -> None:
    """In the server."""
    users = set(loaded_of_users())
    _not_users.update(name for name, file in _files() if file not in users)


def loaded_of_users() -> list[str]:
    """The files of the user's modules that this process has loaded."""
    return [file for _, file in _files() if isinstance(file, str) and owner(file) == USERS]


def _files() -> list[tuple[str, object]]:
    modules = [
        (name, sys.modules.get(name)) for name in list(sys.modules) if name not in _not_users
    ]
    return [(name, getattr(module, "__file__", None)) for name, module in modules]
