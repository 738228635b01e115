"""Which malloc a process starts with: another than glibc's is loaded before everything else.

That is a matter of a process's start, so each has a warm server of its own.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from runner.config import Device
from runner.errors import Unavailable

_FILES = {
    "jemalloc": ("libjemalloc.so.2", "libjemalloc.so.1"),
    "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"),
}
_PACKAGES = {"jemalloc": "libjemalloc2", "tcmalloc": "libtcmalloc-minimal4"}
_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/opt/lib")


def find_variables(device: Device) -> dict[str, str]:
    """Return the variables that a process is started with; raise `Unavailable` where that malloc is
    not installed."""
    variables = {}
    if device.malloc != "default":
        library = _find_library(device.malloc, _FOLDERS)
        if library is None:
            raise Unavailable(
                f"device.malloc={device.malloc}: its library is not installed.",
                f"apt-get install {_PACKAGES[device.malloc]} (Debian, Ubuntu), or leave it out.",
            )
        theirs = os.environ.get("LD_PRELOAD")
        variables["LD_PRELOAD"] = f"{library}:{theirs}" if theirs else str(library)
    if device.malloc_arenas is not None:
        variables["MALLOC_ARENA_MAX"] = str(device.malloc_arenas)
    return variables


def list_installed() -> list[str]:
    """Return the mallocs that are installed beside glibc's."""
    return [name for name in _FILES if _find_library(name, _FOLDERS)]


@cache
def _find_library(name: str, folders: tuple[str, ...]) -> Path | None:
    libraries = (
        library for top in folders for file in _FILES[name] for library in Path(top).rglob(file)
    )
    return next(libraries, None)
