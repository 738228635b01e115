"""Descriptors of our own in the user's process: none that a program meets by chance.

Core: standard library only. Programs close the first thousand as they become daemons, or write to
the one that they take for a free one.
"""

from __future__ import annotations

import fcntl
import os
import resource

_LEAST = 4000


def open_out_of_reach(path: str, flags: int) -> int:
    """Open a file, with a high number."""
    return move_out_of_reach(os.open(path, flags))


def move_out_of_reach(descriptor: int) -> int:
    """Return a copy with a high number, whatever the limit on numbers is; close the descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = _LEAST if hard == resource.RLIM_INFINITY else max(0, min(_LEAST, hard - 64))
    needed = least + 64
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    try:
        copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(descriptor)
    return copy
