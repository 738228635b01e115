"""The machine and the software that a number was measured with, read without importing TensorFlow.

`comparable` holds what must be equal for two timings to be comparable; the fingerprint is its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from runner import nvml, places
from runner.config import Experiment

_PACKAGES = ("tensorflow", "tensorflow-cpu", "keras", "numpy", "hydra-core", "mlflow", "runner")
_FLAGS = ("TF_", "XLA_", "OMP_", "MKL_", "KMP_", "CUDA_", "KERAS_", "LD_PRELOAD", "MALLOC_")
_TERRAFORMS = ("TF_CLI_", "TF_VAR_")
"""Not TensorFlow's, though they begin alike; and a record is no place for what they may hold."""
_SEEN = (
    *("device", "devices", "card", "compute_capability"),
    *("fallback_ops", "device_process_bytes", "device_process_reason"),
)
"""What only the children know of the devices."""


def describe() -> dict[str, Any]:
    """What this machine is, as read once at a run's start."""
    return {
        "versions": _versions(),
        "python": platform.python_version(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": _total_memory(),
        "kernel": platform.release(),
        "host": platform.node(),
        "gpu": nvml.describe(),
        "flags": {name: value for name, value in sorted(os.environ.items())
                  if name.startswith(_FLAGS) and not name.startswith(_TERRAFORMS)},
        "git": _git(places.project()),
        "load": os.getloadavg()[0],
    }  # fmt: skip


def for_record(
    machine: Mapping[str, Any], experiment: Experiment, facts: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """The environment of one record, and its fingerprint. `facts` is what its children saw."""
    device = experiment.device
    comparable = {
        "tensorflow": machine["versions"].get("tensorflow")
        or machine["versions"].get("tensorflow-cpu"),
        "keras": machine["versions"].get("keras"),
        "numpy": machine["versions"].get("numpy"),
        "python": machine["python"],
        "cpu": machine["cpu"],
        "cores": machine["cores"],
        "kernel": machine["kernel"],
        "flags": json.dumps(machine["flags"], sort_keys=True),
        "device": _device(machine, facts),
        "allocator": "capped" if device.memory_limit_mb else "default",
        "intra_op_threads": device.intra_op_threads,
        "inter_op_threads": device.inter_op_threads,
    }
    seen = {name: facts[name] for name in _SEEN if name in facts}
    return {**machine, **seen, "comparable": comparable}, _hash(comparable)


def _device(machine: Mapping[str, Any], facts: Mapping[str, Any]) -> str | None:
    """Which one, and for a card, what it is and who drives it."""
    parts = [facts.get("device"), facts.get("card")]
    if facts.get("card") and machine["gpu"]["driver"]:
        parts.append(f"driver {machine['gpu']['driver']}")
    return ", ".join(part for part in parts if part) or None


def _hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _total_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _git(folder: Path | None) -> dict[str, Any] | None:
    """Revision and dirtiness of the code that measured; None where it is no checkout. (An installed
    copy may lie in somebody else's.)"""
    if folder is None:
        return None
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch"]
    try:
        output = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    lines = output.splitlines()
    revision = next((line.split()[-1] for line in lines if line.startswith("# branch.oid")), None)
    return {"revision": revision, "dirty": any(not line.startswith("#") for line in lines)}
