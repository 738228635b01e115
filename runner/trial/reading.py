"""TensorFlow's own account of its allocator, for a reader who must not disturb: no profiler, no
environment. Of the first GPU where there is one, else of the CPU.

On the CPU TensorFlow leaves out what is smaller than 262,144 bytes, unless it was told otherwise
before its first op (`runner.trial.devices`); then it counts all, with its rounding.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Read:
    live_bytes: int
    peak_bytes: int
    """Since the last `forget`."""


class Allocator:
    """`problem` says why there are no figures, where there are none."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._config = tf.config.experimental
        self.device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
        self.problem: str | None = None
        self.counts_small = False
        """Then its figures have the rounding, which depends on where a tensor came to lie."""
        try:
            self.counts_small = self.device == "GPU:0" or counts_every_byte()
            self.forget()
        except ValueError as error:
            self.problem = f"TensorFlow keeps no figures of this allocator ({error})"

    def forget(self) -> None:
        if self.problem is None:
            self._config.reset_memory_stats(self.device)

    def read(self) -> Read:
        figures = self._config.get_memory_info(self.device)
        return Read(int(figures["current"]), int(figures["peak"]))


def counts_every_byte() -> bool:
    """Whether the CPU's allocator does, as a tensor of a few bytes shows. Raises `ValueError` where
    the allocator keeps no figures."""
    import tensorflow as tf

    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    small = tf.fill([7], 1.0)
    after = tf.config.experimental.get_memory_info("CPU:0")["current"]
    del small
    return bool(after > before)
