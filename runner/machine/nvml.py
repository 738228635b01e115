"""What NVIDIA's driver says of its cards: in the environment, and of a process's device memory.

Read through nvidia-ml-py, an optional package that comes with the extra `gpu`; where it, the driver
or a figure is missing, there is None, and the reason beside it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def describe() -> dict[str, Any]:
    """The driver and its cards, with their clocks as they are now."""
    try:
        with _nvml() as nvml:
            return {
                "driver": _text(nvml.nvmlSystemGetDriverVersion()),
                "cards": [_card(nvml, handle) for handle in _handles(nvml)],
            }
    except _Unknown as why:
        return {"driver": None, "cards": None, "reason": str(why)}


def process_bytes() -> tuple[int | None, str | None]:
    """Device memory that this process has taken, on all cards together; or None, and why."""
    try:
        with _nvml() as nvml:
            own = [
                process.usedGpuMemory
                for handle in _handles(nvml)
                for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
                if process.pid == os.getpid()
            ]
    except _Unknown as why:
        return None, str(why)
    if not own or None in own:
        return None, "the driver does not say it of this process (as in a container)"
    return sum(own), None


class _Unknown(Exception):
    """Why there is nothing to be had."""


@contextmanager
def _nvml() -> Iterator[Any]:
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        raise _Unknown("nvidia-ml-py is not installed (pip install nvidia-ml-py)") from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise _Unknown(f"NVML: {error}") from None
    try:
        yield nvml
    except nvml.NVMLError as error:
        raise _Unknown(f"NVML: {error}") from None
    finally:
        nvml.nvmlShutdown()


def _handles(nvml: Any) -> Iterator[Any]:
    for index in range(nvml.nvmlDeviceGetCount()):
        yield nvml.nvmlDeviceGetHandleByIndex(index)


def _card(nvml: Any, handle: Any) -> dict[str, Any]:
    def figure(read: Callable[..., Any], *arguments: Any) -> Any:
        """One that this card may not offer."""
        try:
            return read(handle, *arguments)
        except nvml.NVMLError:
            return None

    memory = figure(nvml.nvmlDeviceGetMemoryInfo)
    capability = figure(nvml.nvmlDeviceGetCudaComputeCapability)
    return {
        "name": _text(nvml.nvmlDeviceGetName(handle)),
        "uuid": _text(nvml.nvmlDeviceGetUUID(handle)),
        "memory_bytes": memory and memory.total,
        "compute_capability": capability and ".".join(map(str, capability)),
        "sm_clock_mhz": figure(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        "sm_clock_max_mhz": figure(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": figure(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        "memory_clock_max_mhz": figure(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
    }


def _text(value: str | bytes) -> str:
    """Older versions of the package return bytes."""
    return value.decode() if isinstance(value, bytes) else value
