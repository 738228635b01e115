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
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import msgspec

import runner
from runner import paths, user_code
from runner.config import Experiment
from runner.facts import TrialFacts
from runner.machine import Environment, GitState, Machine, UserCode
from runner.processes import nvml

_OWN = "tf-memory-runner"
_PACKAGES = ("tensorflow", "tensorflow-cpu", "keras", "numpy", "hydra-core", "mlflow", _OWN)
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
"""TensorFlow sets it as it is imported: in a program that measures itself, and in every child."""
NODE_FILE = "node.json"
"""In the folder of a cell that a cluster's worker has begun with."""


def describe_machine() -> Machine:
    """Return what this machine is, as read once when a measurement begins."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    models = (fact.partition(":")[2].strip() for fact in facts if fact.startswith("model name"))
    return Machine(
        versions=_read_versions(),
        python=platform.python_version(),
        cpu=next(models, platform.machine()),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
        host=platform.node(),
        gpu=nvml.describe_cards(),
        flags={
            name: value
            for name, value in sorted(os.environ.items())
            if name in FLAGS and _SET_BY_TENSORFLOW.get(name) != value
        },
        git=_read_git_state(paths.find_clone()),
        config_dirs=tuple(map(str, paths.list_own_confs())),
        load=os.getloadavg()[0],
    )


def _read_versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def read_software() -> dict[str, str]:
    """Return what must be the same on all machines whose results stand in one table."""
    versions, code, own = _read_versions(), hashlib.sha256(), Path(runner.__file__).parent
    for module in sorted((*own.rglob("*.py"), *(own.parent / "scenarios").rglob("*.py"))):
        code.update(module.read_bytes())
    return {
        "the runner": f"{versions.get(_OWN)} (hash of its code: {code.hexdigest()[:8]})",
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "TensorFlow": versions.get("tensorflow") or versions.get("tensorflow-cpu", "none"),
        "Keras": versions.get("keras", "none"),
        "NumPy": versions.get("numpy", "none"),
    }


def keep_node(folder: Path, machine: Machine) -> None:
    """Keep beside a cell the machine that measures it, where others may close its record."""
    paths.write_text(folder / NODE_FILE, msgspec.json.encode(machine).decode())


def read_node(folder: Path) -> Machine | None:
    """Return the machine that was kept beside a cell; None where the cell never left this one."""
    try:
        return msgspec.json.decode(paths.read_text(folder / NODE_FILE), type=Machine)
    except (OSError, msgspec.MsgspecError):
        return None


def merge_machines(earlier: Machine, now: Machine) -> Machine:
    """Return this machine, for a run that goes on here with what was measured on an earlier one.

    Where the two differ in what times depend on, all that took part are named: then the run's times
    don't compare with those of one machine.
    """
    if _list_decisive(earlier) == _list_decisive(now) and not earlier.measured_on:
        return now
    hosts = {*(earlier.measured_on or (earlier.host,)), now.host}
    return msgspec.structs.replace(now, measured_on=tuple(sorted(hosts)))


def _list_decisive(machine: Machine) -> tuple[object, ...]:
    """Return what times depend on. Cards count by driver and name: their clocks change."""
    cards = [card.name for card in machine.gpu.cards or ()]
    software = (machine.versions, machine.python, machine.kernel, machine.flags)
    return *software, machine.cpu, machine.cores, machine.gpu.driver, cards


def make_environment(
    machine: Machine, experiment: Experiment, facts: TrialFacts, code: UserCode | None = None
) -> tuple[Environment, str]:
    """Return the environment of one record, of what its children saw, and its fingerprint."""
    device, versions = experiment.device, machine.versions
    driver = facts.card and machine.gpu.driver and f"driver {machine.gpu.driver}"
    parts = (facts.device, facts.card, driver)  # of a card, what it is and who drives it
    comparable: dict[str, str | int | None] = {
        "tensorflow": versions.get("tensorflow") or versions.get("tensorflow-cpu"),
        "keras": versions.get("keras"),
        "numpy": versions.get("numpy"),
        "python": machine.python,
        "cpu": machine.cpu,
        "cores": machine.cores,
        "kernel": machine.kernel,
        "flags": json.dumps(machine.flags | experiment.environment, sort_keys=True),
        "device": ", ".join(part for part in parts if part) or None,
        "allocator": "capped" if device.memory_limit_mb else "default",
        "intra_op_threads": device.intra_op_threads,
        "inter_op_threads": device.inter_op_threads,
        "malloc": device.malloc,
        "malloc_arenas": device.malloc_arenas,
    }
    if machine.measured_on:
        comparable["measured_on"] = ", ".join(machine.measured_on)
    surroundings = Environment(
        **msgspec.structs.asdict(machine),
        device=facts.device,
        devices=facts.devices,
        card=facts.card,
        compute_capability=facts.compute_capability,
        fallback_ops=facts.fallback_ops,
        device_process_bytes=facts.device_process_bytes,
        device_process_reason=facts.device_process_reason,
        comparable=comparable,
        code=code,
    )
    encoded = json.dumps(comparable, sort_keys=True).encode()
    return surroundings, hashlib.sha256(encoded).hexdigest()[:16]


def describe_user_code(
    several: Sequence[Mapping[str, str]], asks_git: bool = True
) -> UserCode | None:
    """Return the files of the user's that the trials loaded, and where they stand in the user's
    repository; None where there are none.

    Git runs what a repository's own configuration names: it is not asked of files that only a
    stranger's folder names.
    """
    files, changed = user_code.merge_files(several)
    if not files:
        return None
    first = Path(next(iter(files))).resolve()
    state = _read_git_state(first.parent) if asks_git else None
    return UserCode(str(Path.cwd()), files, tuple(changed), state)


def _read_git_state(folder: Path | None) -> GitState | None:
    """Return the revision and dirtiness of the code in a folder; None where it is no checkout.

    An installed copy may lie in somebody else's.
    """
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
    return GitState(revision, any(not line.startswith("#") for line in lines))
