"""Where things are, how a path is spelled, and how a file gets to its place.

Core: standard library only. None of it depends on the folder one stands in, but the spelling.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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


def relative(path: Path) -> str:
    """The shorter of a path's two spellings, for a person to read."""
    spelled = os.path.relpath(path)
    return spelled if len(spelled) < len(str(path)) else str(path)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """The name to write a file under; it is renamed to `path` after that, so that whoever looks
    finds it whole or not at all."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield scratch
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    scratch.replace(path)
