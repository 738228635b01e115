"""Measure a block of code in a process that somebody else started, as a memory trial would.

    choose_exact_allocator()                 # before TensorFlow's first op
    block = MemoryBlock()
    block.begin(Phase.FIRST_CALL)            # which `end` ends, the next `begin`, or `finish`
    ...
    result = block.finish()                  # a memory trial, as a child would have sent it

Such a block has no beginning: tensors that were live when it began are in no event. They are left
out of its figures; `before_bytes` says how much they were, by the allocator's own count.

The figure does not depend on what ran before: when a block begins, TensorFlow forgets the scalars
that it keeps for the next op that takes the same, and all that Python has is kept out of the
collector's sight until the block ends. So the collector runs in the block when the block's own
objects make it, as in a trial's child, and frees nothing of before. Garbage of before is collected
when that is worth its time: `_collect_garbage`.
"""

from __future__ import annotations

import gc
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from runner.errors import Unavailable
from runner.facts import TrialFacts
from runner.meters import collector
from runner.meters.tensor import samples
from runner.meters.tensor.allocator import (
    EXACT_ALLOCATOR,
    SECOND_ALLOCATOR,
    UNITED_BY,
    are_allocators_united,
    is_exact_allocator,
    name_allocator,
)
from runner.meters.tensor.call_recorder import CallRecorder
from runner.meters.tensor.replay import NoAllocations
from runner.meters.tensor.tracing import AllocationTracing
from runner.records import COMPLETED, Phase, Trial

_CHATTER = re.compile(rb"(?:session_manager|profiler_session|save_profile)\.cc:\d+\] ")


_SHARE_OF_TIME = 1 / 20
"""The share of processor time that may go to collecting what may be garbage. With TensorFlow and
Keras loaded, Python looks through 400,000 objects in 0.2 s; a small test takes a tenth of that."""

_MOST_GARBAGE_BYTES = 64_000_000
"""Tensors that may have become garbage: so much more of them, and it is collected at once."""


@dataclass(frozen=True)
class BlockResult:
    """The figures of a block."""

    trial: Trial
    before_bytes: int
    """Live when it began, and in none of the trial's figures; the allocator's rounding included."""


class MemoryBlock:
    """Measured from when it is made to `finish`, or to `abandon`, in one thread. To make it raises
    `Unavailable` where this process can't be measured."""

    def __init__(self) -> None:
        from tensorflow.python.eager import context

        pattern = _find_allocator()
        context.context()._clear_caches()  # the scalars that it keeps for the next op
        self._recorder = CallRecorder()
        self._phase: Phase | None = None
        """Whose mark is open."""
        self._hides_objects = gc.isenabled() and not gc.get_freeze_count()
        if self._hides_objects:
            _collect_garbage()
            gc.freeze()
            gc.collect()  # nothing, but the collector forgets how much it saw before
        self._recorder.start()
        self._tracing = AllocationTracing(pattern, recording=self._recorder.recording)
        with _without_chatter():
            self._tracing.start()

    def begin(self, phase: Phase, step: int = 0) -> None:
        """Begin a phase, and end the one before."""
        self.end()
        self._phase = phase
        self._tracing.begin(phase, step)

    def end(self) -> None:
        if self._phase is not None:
            import tensorflow as tf

            if tf.config.list_logical_devices("GPU"):
                tf.test.experimental.sync_devices()
            self._tracing.end(self._phase)
            self._phase = None

    def finish(self) -> BlockResult:
        """Collect what is garbage, and stop. Raises `Unavailable` where there are no figures."""
        try:
            self.begin(Phase.COLLECTION)
            collector.collect()
            self.end()
            with _without_chatter():
                found = self._tracing.finish()
        finally:
            self._leave()
        if isinstance(found, NoAllocations):
            raise Unavailable(f"nothing could be measured: {found.reason}.")
        trial = samples.make_result(found, TrialFacts()).as_trial("memory", 0, COMPLETED)
        return BlockResult(trial, found.checks.live_before_bytes if found.checks else 0)

    def abandon(self) -> None:
        """Stop, whatever was seen."""
        with _without_chatter():
            self._tracing.finish()
        self._leave()

    def _leave(self) -> None:
        self._recorder.stop()
        if self._hides_objects:
            gc.unfreeze()


_collected_at, _collecting_seconds, _collected_bytes = -math.inf, 0.0, 0


def _collect_garbage() -> None:
    """Look through all of Python's objects where there is time for it, or where tensors have piled
    up; else through the new ones alone."""
    global _collected_at, _collecting_seconds, _collected_bytes
    begin = time.process_time()
    has_time = (begin - _collected_at) * _SHARE_OF_TIME >= _collecting_seconds
    if has_time or _read_live_bytes() - _collected_bytes > _MOST_GARBAGE_BYTES:
        gc.collect()
        _collected_at = time.process_time()
        _collecting_seconds, _collected_bytes = _collected_at - begin, _read_live_bytes()
    else:
        gc.collect(1)


def _read_live_bytes() -> int:
    """Return TensorFlow's own count, for the device that is measured."""
    import tensorflow as tf

    device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
    return int(tf.config.experimental.get_memory_info(device)["current"])


def _find_allocator() -> str:
    """Return a pattern for the allocator's name: the first GPU's where there is one, else the
    CPU's. Raise `Unavailable` if that is not the one that counts every byte."""
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        return name_allocator("gpu")
    is_exact = False
    with suppress(ValueError):  # an allocator without figures
        is_exact = is_exact_allocator()
    if not is_exact:
        raise Unavailable(
            "TensorFlow ran its first op before the measurement was asked for, and so took the CPU "
            "allocator that does not count what is smaller than 262,144 bytes.",
            f"Set {EXACT_ALLOCATOR}=1 in the environment, or import and run nothing of "
            "TensorFlow's before.",
        )
    if not are_allocators_united():
        raise Unavailable(
            f"{SECOND_ALLOCATOR[0].upper()}{SECOND_ALLOCATOR[1:]}.",
            f"Set {EXACT_ALLOCATOR}=1 in the environment, and {UNITED_BY}.",
        )
    return name_allocator("cpu")


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Keep back what TensorFlow's profiler says on file descriptor 2 when it begins and ends: the
    user would find it beside the message of a test that failed. All else goes through."""
    sys.stderr.flush()
    whole = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(whole, 2)
            os.close(whole)
            said.seek(0)
            for line in said:
                if not _CHATTER.search(line):
                    os.write(2, line)
