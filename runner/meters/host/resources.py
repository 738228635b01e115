"""Count what a process holds of the kernel's: open files and threads. Child side."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from runner.facts import OpenResource, ResourceKind

_DESCRIPTORS, _TASKS = "/proc/self/fd", "/proc/self/task"
_HIGHEST = 4000
"""Descriptors from here on are the runner's own: see `processes.descriptors`."""


class ResourceMeter:
    """`mark` before the first step and after each; `list_open` at the end."""

    def __init__(self) -> None:
        self._files: list[int] = []
        self._threads: list[int] = []
        self._first = frozenset[str]()

    def mark(self) -> None:
        names = _list_descriptors()
        self._first = self._first or names
        self._files.append(len(names))
        self._threads.append(len(os.listdir(_TASKS)))  # noqa: PTH208

    def list_open(self) -> tuple[OpenResource, ...]:
        """Return what there is more of than at the first mark."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        known = None if limit == resource.RLIM_INFINITY else limit
        opened = (
            OpenResource(ResourceKind.FILE, tuple(self._files), self._name_latest(), known),
            OpenResource(ResourceKind.THREAD, tuple(self._threads)),
        )
        return tuple(kind for kind in opened if kind.counts[-1] > kind.counts[0])

    def _name_latest(self) -> str:
        """Return what was opened last since the first mark: a path, `socket`, `pipe`."""
        for name in sorted(_list_descriptors() - self._first, key=int, reverse=True):
            with suppress(OSError):  # closed meanwhile, as the one that lists them
                target = os.readlink(f"{_DESCRIPTORS}/{name}")  # noqa: PTH115
                return target.partition(":[")[0].removesuffix(" (deleted)")
        return ""


def _list_descriptors() -> frozenset[str]:
    names = os.listdir(_DESCRIPTORS)  # noqa: PTH208
    return frozenset(name for name in names if int(name) < _HIGHEST)
