"""The limit on host memory (`measure.host_limit_mb`), set by the child for itself."""

from __future__ import annotations

import resource

from runner.cell import TrialSpec
from runner.meters.host.resident import read_field


def impose(spec: TrialSpec) -> None:
    """Let this process take no more than its limit on top of what it has."""
    if spec.host_limit_mb is not None:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = read_field("/proc/self/status", b"VmData:") + spec.host_limit_mb * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def lift() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
