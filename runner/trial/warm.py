"""Loaded once by the warm server, before any child is forked: TensorFlow, and no device touched.

Keras imports scikit-learn, SciPy and matplotlib when they are installed, a third of the start-up,
and needs none of them to measure anything; they are hidden from it while it loads. (pandas is not:
Keras decides at import whether a user may feed it data frames.) What all trials do alike and
without a device, importing their meters for one, is done here once, too: half of a small trial.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import traceback
import warnings
from contextlib import suppress
from multiprocessing import popen_forkserver  # noqa: F401  each child would load it
from pathlib import Path

from runner.machine import lifeline

LOG_VARIABLE = "RUNNER_SERVER_LOG"

SCRATCH = "runner-trial-"
"""What the names of the trials' temporary folders begin with; the parent's number follows."""

problem: str | None = None
"""Why TensorFlow could not be loaded; the first child reports it."""


def _load() -> None:
    gc.disable()  # it would look through all that is there again and again: a fifth of the time
    hidden = [name for name in ("sklearn", "scipy", "matplotlib") if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import tensorflow
        from tensorflow.tsl.profiler.protobuf import xplane_pb2

        # What each trial needs, and would load anew; and whose code all of this is.
        from runner.trial import devices, execution, owners, worker
        from runner.trial.measure import between, calls, compiling, floor, meters, requests, samples

        del tensorflow, xplane_pb2, devices, execution, worker
        del between, calls, compiling, requests, samples
        _fill_registries()
        owners.note_what_is_loaded()
        gc.freeze()  # a child collects what it made, not the hundred thousand objects loaded here
        gc.collect()  # nothing, but it gives up what Python keeps for new objects
        floor.lower(meters.HostMemory().anonymous)
    finally:
        for name in hidden:
            del sys.modules[name]
        gc.enable()


def _fill_registries() -> None:
    """TensorFlow makes its tables of ops and kernels when it first looks for one, and once more
    when it finds none: the first op of all does both. Where a version has them elsewhere, each
    child's first op makes them."""
    with suppress(ImportError, AttributeError):
        from tensorflow.python.framework import kernels, op_def_registry

        op_def_registry.get("NoSuchOp")
        kernels.get_registered_kernels_for_op("NoSuchOp")


def _redirect(path: str) -> None:
    """TensorFlow speaks to file descriptor 2 while it loads; that belongs in the log."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)


if path := os.environ.pop(LOG_VARIABLE, None):  # or a runner that a trial starts would take it
    lifeline.end_family_with_parent(Path(tempfile.gettempdir()), f"{SCRATCH}{os.getppid()}-*")
    warnings.filterwarnings("ignore", message="forkserver: waitpid")  # an orphan that was adopted
    _redirect(path)
    try:
        _load()
    except BaseException:
        problem = traceback.format_exc()
