"""Facts of NVIDIA's driver: its cards, and the device memory of a process.

Read through nvidia-ml-py, an optional package that comes with the extra `gpu`; where it, the driver
or a figure is missing, there is None, and the reason beside it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from runner.machine import Card, Gpu


def describe_cards() -> Gpu:
    """Return the driver and its cards, with their clocks as they are now."""
    try:
        with _open_nvml() as nvml:
            cards = tuple(_describe_card(nvml, handle) for handle in _list_handles(nvml))
            return Gpu(driver=_decode(nvml.nvmlSystemGetDriverVersion()), cards=cards)
    except _Unknown as why:
        return Gpu(driver=None, cards=None, reason=str(why))


def read_process_bytes() -> tuple[int | None, str | None]:
    """Return the device memory that this process has taken, on all cards together; or None, and
    why."""
    try:
        with _open_nvml() as nvml:
            own = [
                process.usedGpuMemory
                for handle in _list_handles(nvml)
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
def _open_nvml() -> Iterator[Any]:
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


def _list_handles(nvml: Any) -> Iterator[Any]:
    for index in range(nvml.nvmlDeviceGetCount()):
        yield nvml.nvmlDeviceGetHandleByIndex(index)


def _describe_card(nvml: Any, handle: Any) -> Card:
    def read_if_offered(read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(handle, *arguments)
        except nvml.NVMLError:
            return None

    memory = read_if_offered(nvml.nvmlDeviceGetMemoryInfo)
    capability = read_if_offered(nvml.nvmlDeviceGetCudaComputeCapability)
    return Card(
        name=_decode(nvml.nvmlDeviceGetName(handle)),
        uuid=_decode(nvml.nvmlDeviceGetUUID(handle)),
        memory_bytes=memory and memory.total,
        compute_capability=capability and ".".join(map(str, capability)),
        sm_clock_mhz=read_if_offered(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        sm_clock_max_mhz=read_if_offered(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        memory_clock_mhz=read_if_offered(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        memory_clock_max_mhz=read_if_offered(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
    )


def _decode(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value  # older versions return bytes
