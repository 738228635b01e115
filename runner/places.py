"""Where things are: the one class of paths that does not depend on the folder one stands in."""

from __future__ import annotations

import os
from pathlib import Path

_PROJECT = Path(__file__).resolve().parent.parent


def project() -> Path:
    return _PROJECT


def conf() -> Path:
    return _PROJECT / "conf"


def outputs() -> Path:
    """The project's `outputs/`, unless RUNNER_OUTPUTS names another folder."""
    named = os.environ.get("RUNNER_OUTPUTS")
    return Path(named).resolve() if named else _PROJECT / "outputs"
