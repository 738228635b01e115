"""The machine and the software that a number was measured with, read without importing TensorFlow.

`comparable` holds what must be equal for two timings to be comparable; the fingerprint is its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from runner import code, places
from runner.config import Experiment
from runner.machine import nvml

_PACKAGES = ("tensorflow", "tensorflow-cpu", "keras", "numpy", "hydra-core", "mlflow", "runner")
# fmt: off
FLAGS = frozenset((
    "TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB", "TF_ENABLE_ONEDNN_OPTS",
    "TF_DISABLE_MKL", "TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS",
    "TF_ONEDNN_THREADPOOL_USE_CALLER_THREAD", "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS", "TF_XLA_FLAGS", "XLA_FLAGS", "XLA_PYTHON_CLIENT_ALLOCATOR",
    "TF_GPU_ALLOCATOR", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_THREAD_MODE",
    "TF_GPU_THREAD_COUNT", "TF_GPU_HOST_MEM_LIMIT_IN_MB", "TF_CUDA_HOST_MEM_LIMIT_IN_MB",
    "TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", "TF_PER_DEVICE_MEMORY_LIMIT_MB",
    "TF_ENABLE_GPU_GARBAGE_COLLECTION", "TF_ENABLE_NUMA_ALLOCATOR", "TF_DETERMINISTIC_OPS",
    "TF_CUDNN_DETERMINISTIC", "TF_CUDNN_USE_AUTOTUNE", "TF_CUDNN_USE_FRONTEND",
    "TF_CUDNN_WORKSPACE_LIMIT_IN_MB", "TF_CUBLAS_WORKSPACE_LIMIT_IN_MB",
    "CUBLAS_WORKSPACE_CONFIG", "TF_ENABLE_CUBLAS_TENSOR_OP_MATH_FP32",
    "TF_ENABLE_CUDNN_TENSOR_OP_MATH_FP32", "NVIDIA_TF32_OVERRIDE",
    "TF_ENABLE_AUTO_MIXED_PRECISION", "TF_ENABLE_WINOGRAD_NONFUSED", "TF_SYNC_ON_FINISH",
    "TF_CPP_MIN_LOG_LEVEL", "TF_CPP_MIN_VLOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL", "TF_CPP_VMODULE",
    "TF_FUNCTION_JIT_COMPILE_DEFAULT", "TF_RUN_EAGER_OP_AS_FUNCTION", "TF_USE_LEGACY_KERAS",
    "TF2_BEHAVIOR", "TF_ENABLE_EAGER_RUNTIME", "KERAS_BACKEND", "KERAS_FLOATX",
    "OMP_NUM_THREADS", "OMP_DYNAMIC", "OMP_PROC_BIND", "OMP_PLACES", "OMP_SCHEDULE",
    "OMP_WAIT_POLICY", "OMP_STACKSIZE", "OMP_THREAD_LIMIT", "OMP_NESTED",
    "OMP_MAX_ACTIVE_LEVELS", "KMP_AFFINITY", "KMP_BLOCKTIME", "KMP_HW_SUBSET", "KMP_LIBRARY",
    "KMP_STACKSIZE", "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "MKL_NUM_THREADS", "MKL_DYNAMIC",
    "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "OPENBLAS_NUM_THREADS",
    "ONEDNN_MAX_CPU_ISA", "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_MAX_CPU_ISA", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING",
    "CUDA_CACHE_DISABLE", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING",
    "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT", "LD_PRELOAD", "LD_BIND_NOW", "GLIBC_TUNABLES",
    "PYTHONMALLOC", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "MALLOC_ARENA_MAX", "MALLOC_ARENA_TEST",
    "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_PERTURB_", "MALLOC_CHECK_", "MALLOC_CONF", "TCMALLOC_RELEASE_RATE",
    "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
))
# fmt: on
"""The variables that are known to change a measurement, by their whole names: others begin alike
(TF_TOKEN_... is Terraform's), and a record is no place for what they may hold."""
_SET_BY_TENSORFLOW = {"TF2_BEHAVIOR": "1"}
"""As it is imported, in a program that measures with the library, and in every child anyway."""
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
                  if name in FLAGS and _SET_BY_TENSORFLOW.get(name) != value},
        "git": _git(places.project()),
        **({"config_dirs": list(map(str, own))} if (own := places.own_confs()) else {}),
        "load": os.getloadavg()[0],
    }  # fmt: skip


def together(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """This machine, for a run that goes on here with what was measured on an earlier one. Where the
    two differ in what times depend on, all that took part are named: then the run's times don't
    compare with those of one machine."""
    if _decisive(earlier) == _decisive(now) and _TOGETHER not in earlier:
        return dict(now)
    hosts = {*earlier.get(_TOGETHER, (earlier.get("host"),)), now["host"]}
    return {**now, _TOGETHER: sorted(map(str, hosts))}


def _decisive(machine: Mapping[str, Any]) -> list[Any]:
    """Of the cards who drives them and what they are: their clocks change from moment to moment."""
    gpu = machine.get("gpu") or {}
    cards = [card["name"] for card in gpu.get("cards") or ()]
    parts = ("versions", "python", "cpu", "cores", "kernel", "flags")
    return [*(machine.get(part) for part in parts), gpu.get("driver"), cards]


_TOGETHER = "measured_on"


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
        "malloc": device.malloc,
        "malloc_arenas": device.malloc_arenas,
    }
    if _TOGETHER in machine:
        comparable[_TOGETHER] = ", ".join(machine[_TOGETHER])
    seen = {name: facts[name] for name in _SEEN if name in facts}
    return {**machine, **seen, "comparable": comparable}, _hash(comparable)


def of_users(several: Sequence[Mapping[str, str]]) -> dict[str, Any] | None:
    """Which code of the user's the trials loaded: its files, and where they stand in the user's
    repository; None where it was none of the user's."""
    files, changed = code.together(several)
    if not files:
        return None
    first = Path(next(iter(files))).resolve()
    return {
        "folder": str(Path.cwd()),
        "files": files,
        "changed_meanwhile": changed,
        "git": _git(first.parent),
    }


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
