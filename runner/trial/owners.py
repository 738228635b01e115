"""Whose code a file is: an installed package's, ours, Python's or the user's. Child side."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path

from runner import places

USERS, PYTHON, SCENARIO, RUNNER = "the user", "Python", "scenarios", "runner"
OURS = {SCENARIO: places.scenarios(), RUNNER: places.package()}
"""Scenarios first: in an installed copy they lie inside the package."""
LIBRARIES = (PYTHON, "tensorflow", "keras", "numpy")


@cache
def owner(file: str) -> str:
    """An installed package's name, or one of those above."""
    path = Path(file)
    for name, folder in OURS.items():
        if path.is_relative_to(folder):
            return name
    for packages in ("site-packages", "dist-packages"):
        if packages in path.parts:
            return path.parts[path.parts.index(packages) + 1]
    made = file.startswith("<") or path.name.startswith("__autograph_generated_file")
    return PYTHON if made or path.is_relative_to(sysconfig.get_path("stdlib")) else USERS


def loaded_of_users() -> list[str]:
    """The files of the user's modules that this process has loaded."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return [file for file in files if isinstance(file, str) and owner(file) == USERS]
