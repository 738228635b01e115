"""Whose code a file is: an installed package's, ours, Python's or the user's. Child side."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

from runner import places

USERS, PYTHON, SCENARIO, RUNNER = "the user", "Python", "scenarios", "runner"
OURS = (RUNNER, SCENARIO)
LIBRARIES = (PYTHON, "tensorflow", "keras", "numpy")


@cache
def owner(file: str) -> str:
    """An installed package's name, or one of those above."""
    path = Path(file)
    for folder in ("site-packages", "dist-packages"):
        if folder in path.parts:
            return path.parts[path.parts.index(folder) + 1]
    for name in OURS:
        if path.is_relative_to(places.project() / name):
            return name
    made = file.startswith("<") or path.name.startswith("__autograph_generated_file")
    return PYTHON if made or path.is_relative_to(sysconfig.get_path("stdlib")) else USERS
