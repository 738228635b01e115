"""What the kernel says of this process's cgroup: a container's, a batch system's, a service's."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")
_FILES = {"": "memory.events", "memory": "memory/memory.oom_control"}
"""Which file below the root counts the killed, by controller: that of version 2 has no name."""


def count_kills() -> int:
    """Return how many processes of this cgroup the kernel has killed because memory had run out, of
    the cgroup, of one above it or of the machine; 0 where that is not said."""
    kills = 0
    with suppress(OSError):
        for line in MEMBERSHIP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                if controller in _FILES:
                    kills += _read_kills(ROOT / _FILES[controller], path.strip("/"))
    return kills


def _read_kills(file: Path, path: str) -> int:
    """Return the count of the cgroup at a path; a container may see its own as the root."""
    for folder in (file.parent / path, file.parent):
        with suppress(OSError):
            match = re.search(r"^oom_kill (\d+)$", (folder / file.name).read_text(), re.MULTILINE)
            return int(match[1]) if match else 0
    return 0
