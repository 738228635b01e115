"""Choose the allocator that counts every byte, and read TensorFlow's own account of it.

TensorFlow's default CPU allocator leaves out what is smaller than 262,144 bytes, in its figures and
in the profiler's events. BFC counts all, with its rounding to 256 bytes; TensorFlow takes it when
the environment says so before its first op, and never again. A GPU's allocator always counts all.

The device's allocator is not the only door to host memory. Feeds of a session, copies of NumPy's
arrays and constants of graphs come from `cpu_allocator()`, which decides at its first call where it
gets its memory, for good (tsl/framework/allocator.cc):

    the state of the process is there    the device's allocator: one account of all
    it is not: a graph was made first    an allocator of its own, `mklcpu`, which leaves out what
                                         is small, and which no cap concerns

In a program as people run it both are the same one. So the state is made before all else.

Beside a GPU there is pinned host memory (`gpu_host_bfc`), through which copies go. It is in no
figure of tensors; a trace says how many events it had.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

from runner.versions import describe_untried

EXACT_ALLOCATOR = "TF_CPU_ALLOCATOR_USE_BFC"

SECOND_ALLOCATOR = (
    "a graph was made before TensorFlow had a device, so that the copies of arrays and the "
    "constants of graphs lie in a second allocator (mklcpu), which is not counted"
)
UNITED_BY = "call tf.config.list_logical_devices() before the first graph"


def choose_exact_allocator() -> None:
    """Ask TensorFlow for the CPU allocator that counts every byte, unless the user said not to."""
    os.environ.setdefault(EXACT_ALLOCATOR, "1")


def unite_allocators() -> None:
    """Have all host memory come from the device's allocator. To be called before the first op, and
    before the first graph, of a process whose environment names the allocator."""
    import tensorflow as tf

    try:
        _load_library()._ZN10tensorflow12ProcessState9singletonEv()  # ProcessState::singleton()
    except AttributeError:
        if not describe_untried("tensorflow", tf.__version__):
            raise


def _load_library() -> ctypes.CDLL:
    import tensorflow as tf

    name = tf.sysconfig.get_link_flags()[-1].removeprefix("-l:")
    return ctypes.CDLL(f"{tf.sysconfig.get_lib()}/{name}")


def name_allocator(kind: str) -> str:
    """Return a pattern for TensorFlow's name for the allocator of the first device of a kind: the
    CPU's is the one that counts every byte."""
    return "(GPU|PluggableDevice)_0_bfc" if kind == "gpu" else "bfc_cpu_allocator_for_gpu"


@dataclass(frozen=True)
class AllocatorReading:
    live_bytes: int
    peak_bytes: int
    """Since the last `forget`."""


class AllocatorAccount:
    """TensorFlow's own account, for a reader who must not disturb: no profiler, no environment. Of
    the first GPU where there is one, else of the CPU."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._config = tf.config.experimental
        self.device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
        self.problem: str | None = None
        """Why there are no figures, where there are none."""
        self.counts_small = False
        """Then its figures have the rounding, which depends on where a tensor came to lie."""
        try:
            self.counts_small = self.device == "GPU:0" or is_exact_allocator()
            if self.device == "CPU:0" and self.counts_small and not are_allocators_united():
                self.problem = f"{SECOND_ALLOCATOR}; {UNITED_BY}"
            self.forget()
        except ValueError as error:
            self.problem = f"TensorFlow keeps no figures of this allocator ({error})"

    def forget(self) -> None:
        """Start the peak anew."""
        if self.problem is None:
            self._config.reset_memory_stats(self.device)

    def read(self) -> AllocatorReading:
        figures = self._config.get_memory_info(self.device)
        return AllocatorReading(int(figures["current"]), int(figures["peak"]))


def is_exact_allocator() -> bool:
    """Return whether the CPU's allocator does, as a tensor of a few bytes shows. Raise `ValueError`
    where the allocator keeps no figures."""
    import tensorflow as tf

    before = _read_live_bytes()
    small = tf.fill([7], 1.0)
    after = _read_live_bytes()
    del small
    return after > before


def are_allocators_united() -> bool:
    """Return whether the figures of the CPU's exact allocator have what TensorFlow copies of an
    array, as one shows that its C API is asked for. An array of NumPy's may not be copied."""
    library = _load_library()
    library.TF_AllocateTensor.restype = ctypes.c_void_p
    before = _read_live_bytes()
    uint8 = 4  # TF_UINT8
    tensor = library.TF_AllocateTensor(uint8, (ctypes.c_int64 * 1)(7), 1, ctypes.c_size_t(7))
    after = _read_live_bytes()
    library.TF_DeleteTensor(ctypes.c_void_p(tensor))
    return after > before


def _read_live_bytes() -> int:
    import tensorflow as tf

    return int(tf.config.experimental.get_memory_info("CPU:0")["current"])
