"""Load TensorFlow once, in the zygote, before any child is forked; touch no device.

Keras imports scikit-learn, SciPy and matplotlib when they are installed, a third of the start-up,
and needs none of them to measure anything; they are hidden from it while it loads. (pandas is not:
Keras decides at import whether a user may feed it data frames.) What all trials do alike and
without a device, importing their meters for one, is done here once, too: half of a small trial.
"""

from __future__ import annotations

import gc
import sys
import traceback
from contextlib import suppress

is_loaded = False
"""True in a process that measures."""

problem: str | None = None
"""Why TensorFlow could not be loaded; the first child reports it."""


def load() -> None:
    """Load what every trial needs."""
    global is_loaded, problem
    is_loaded = True
    gc.disable()  # it would look through all that is there again and again: a fifth of the time
    hidden = [name for name in ("sklearn", "scipy", "matplotlib") if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import tensorflow
        from tensorflow.tsl.profiler.protobuf import xplane_pb2

        from runner.meters import code_owner
        from runner.meters.host import floor, resident

        # What each trial needs, and would load anew; and whose code all of this is.
        from runner.trial import memory_trial, timing_trial, worker

        del tensorflow, xplane_pb2, memory_trial, timing_trial, worker
        _fill_registries()
        code_owner.note_loaded()
        gc.freeze()  # a child collects what it made, not the hundred thousand objects loaded here
        gc.collect()  # nothing, but it gives up what Python keeps for new objects
        floor.lower(resident.HostMemory().anonymous)
    except BaseException:
        problem = traceback.format_exc()
    finally:
        for name in hidden:
            del sys.modules[name]
        gc.enable()


def _fill_registries() -> None:
    """Make TensorFlow fill its tables of ops and kernels, which each child's first op would do.

    It makes them when it first looks for one, and once more when it finds none: the first op of all
    does both. Where a version has them elsewhere, each child's first op makes them.
    """
    with suppress(ImportError, AttributeError):
        from tensorflow.python.framework import kernels, op_def_registry

        op_def_registry.get("NoSuchOp")
        kernels.get_registered_kernels_for_op("NoSuchOp")
