"""Find whose code a file is: an installed package's, ours, Python's or the user's. Child side.
Core: standard library only.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from contextlib import suppress
from functools import cache
from itertools import takewhile

from runner import paths

USERS, PYTHON, SCENARIO, RUNNER = "the user", "Python", "scenarios", "runner"
OURS = {SCENARIO: paths.find_scenarios(), RUNNER: paths.find_package()}
"""Scenarios first: in an installed copy they lie inside the package."""
LIBRARIES = (PYTHON, "tensorflow", "keras", "numpy")
GENERATED = "__autograph_generated_file"
"""How the names of the files begin that AutoGraph makes."""
_STANDARD = tuple(
    f"{each}/"
    for path in map(sysconfig.get_path, ("stdlib", "platstdlib"))
    for each in (path, os.path.realpath(path))
)


@cache
def find_owner(file: str) -> str:
    """Return an installed package's name, or one of those above."""
    for name, folder in OURS.items():
        if file.startswith(f"{folder}/"):
            return name
    *folders, last = file.split("/")
    for packages in ("site-packages", "dist-packages"):
        if packages in folders:
            return [*folders, last][folders.index(packages) + 1]
    is_made = file.startswith("<") or last.startswith(GENERATED)
    return PYTHON if is_made or file.startswith(_STANDARD) else USERS


_of_server: list[str] = []
_last = ""
"""The user's files, and the last of all modules, that the server had loaded: a child need not look
at the thousands that it shares with it. To look at one is to write to its page, and have it
copied."""


def note_loaded() -> None:
    """Note, in the server, what is loaded."""
    global _last
    _of_server.extend(list_user_files())
    _last = next(reversed(sys.modules))


def list_user_files() -> list[str]:
    """Return the files of the user's modules that this process has loaded."""
    newer = list(takewhile(_last.__ne__, reversed(sys.modules)))  # at once: threads may import
    files = [getattr(sys.modules.get(name), "__file__", None) for name in newer]
    users = (file for file in files if isinstance(file, str) and find_owner(file) == USERS)
    return [*_of_server, *users]


_folder: str | None = None
_chdir = os.chdir  # as it was before the user's code


def note_folder() -> None:
    """Note the folder where the program begins: its code may leave it, or lose it."""
    global _folder
    _folder = os.getcwd()  # noqa: PTH109


def return_to_folder() -> None:
    """Go back to where the program began, if that is still there."""
    if _folder is not None:
        with suppress(OSError):
            _chdir(_folder)


def make_absolute(file: str) -> str:
    """Return the whole path of a file that Python names from the folder where the program began."""
    folder = os.getcwd() if _folder is None else _folder  # noqa: PTH109
    return os.path.normpath(os.path.join(folder, file))  # noqa: PTH118


def make_relative(file: str) -> str:
    """Return a file as seen from the folder where the program began, if it is below it."""
    return file.removeprefix(make_absolute("").rstrip("/") + "/")
