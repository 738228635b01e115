"""Facts of NVIDIA's driver: its cards, and the device memory of a process.

Read through nvidia-ml-py, an optional package that comes with the extra `gpu`; where it, the driver
or a figure is missing, there is None, and the reason beside it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

from runner.machine import Card, Gpu

T = TypeVar("T")


def describe_cards() -> Gpu:
    """Return the driver and its cards, with their clocks as they are now."""

    def describe(nvml: Any, handles: list[Any]) -> Gpu:
        cards = tuple(_describe_card(nvml, handle) for handle in handles)
        return Gpu(driver=_decode(nvml.nvmlSystemGetDriverVersion()), cards=cards)

    gpu, reason = _ask_driver(describe)
    return gpu or Gpu(driver=None, cards=None, reason=reason)


def read_process_bytes() -> tuple[int | None, str | None]:
    """Return the device memory that this process has taken, on all cards together; or None, and
    why."""

    def read(nvml: Any, handles: list[Any]) -> list[Any]:
        every = (p for card in handles for p in nvml.nvmlDeviceGetComputeRunningProcesses(card))
        return [process.usedGpuMemory for process in every if process.pid == os.getpid()]

    own, reason = _ask_driver(read)
    if own is None:
        return None, reason
    if not own or None in own:
        return None, "the driver does not say it of this process (as in a container)"
    return sum(own), None


def _ask_driver(ask: Callable[[Any, list[Any]], T]) -> tuple[T | None, str | None]:
    """Return what the driver answers of its cards; or None, and why."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None, "nvidia-ml-py is not installed (pip install nvidia-ml-py)"
    try:
        nvml.nvmlInit()
        try:
            count = nvml.nvmlDeviceGetCount()
            return ask(
                nvml, [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
            ), None
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        return None, f"NVML: {error}"


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
