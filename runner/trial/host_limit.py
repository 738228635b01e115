"""The limit on host memory (`measure.host_limit_mb`), set by the child for itself."""

from __future__ import annotations

import resource
from pathlib import Path

from runner.cell import TrialSpec


def impose(spec: TrialSpec) -> None:
    """Let this process take no more than its limit on top of what it has."""
    limit_mb = spec.host_limit_mb
    if limit_mb is None:
        return
    with Path("/proc/self/status").open() as status:
        data = next(line for line in status if line.startswith("VmData:"))
    limit = int(data.split()[1]) * 1024 + limit_mb * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def lift() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
