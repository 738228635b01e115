"""What devices there are, their caps, their synchronisation. Child side, before the first op.

Memory trials need an allocator that counts every byte. On the CPU that is BFC, which TensorFlow
takes when told by the environment before its first op; the default one counts nothing under
262,144 bytes. A cap needs BFC as well, so a capped timing trial runs on it too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from runner.config import Device
from runner.errors import Unavailable
from runner.measure.allocations import allocator_of


@dataclass(frozen=True)
class Placed:
    """The device that was chosen, as TensorFlow names it, and what is known of it."""

    name: str
    allocator: str
    facts: dict[str, Any]

    def settle(self) -> None:
        """Wait until the device has done all that it was given. The CPU runs in line."""
        if self.name.startswith("GPU"):
            import tensorflow as tf

            tf.test.experimental.sync_devices()

    def allocator_peak_bytes(self) -> int:
        import tensorflow as tf

        return int(tf.config.experimental.get_memory_info(self.name)["peak"])


def prepare(device: Device, *, exact: bool) -> Placed:
    """Choose and limit the device; `exact` for a memory trial. Runs no op."""
    if exact or device.memory_limit_mb is not None:
        os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
    import tensorflow as tf

    if device.intra_op_threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(device.intra_op_threads)
    if device.inter_op_threads is not None:
        tf.config.threading.set_inter_op_parallelism_threads(device.inter_op_threads)
    gpus = tf.config.list_physical_devices("GPU")
    if device.kind == "gpu" and len(gpus) <= device.index:
        seen = ", ".join(each.name for each in tf.config.list_physical_devices())
        raise Unavailable(
            f"device=gpu: TensorFlow sees no GPU:{device.index} here; it sees {seen}.",
            "Install the driver and `pip install 'tensorflow[and-cuda]'`, or say device=auto.",
        )
    tf.config.set_visible_devices([], "GPU")
    if device.memory_limit_mb is not None:
        os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = str(device.memory_limit_mb)
    return Placed("CPU:0", allocator_of("cpu"), {"device": "CPU:0"})
