"""Whose code a file is: an installed package's, ours, Python's or the user's. Child side."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from itertools import takewhile

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


_of_server: list[str] = []
_last = ""
"""The user's files, and the last of all modules, that the server had loaded: a child need not look
at the thousands that it shares with it. To look at one is to write to its page, and have it
copied."""


def note_what_is_loaded() -> None:
    """In the server."""
    global _last
    _of_server.extend(loaded_of_users())
    _last = next(reversed(sys.modules))


def loaded_of_users() -> list[str]:
    """The files of the user's modules that this process has loaded."""
    newer = list(takewhile(_last.__ne__, reversed(sys.modules)))  # at once: threads may import
    files = [getattr(sys.modules.get(name), "__file__", None) for name in newer]
    return _of_server + [file for file in files if isinstance(file, str) and owner(file) == USERS]
