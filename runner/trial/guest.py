"""The memory meter as a guest: in a process that somebody else started, around a block of theirs.

    guest.arm()                              # before TensorFlow's first op
    block = guest.Block()
    block.begin(Phase.FIRST_CALL)            # or `with block.mark(Phase.STEPS, 3)`
    ...
    seen = block.finish()                    # a memory trial, as a child would have sent it

It is the meter of a memory trial: TensorFlow's allocation events, requested bytes, exact. What a
guest can't have is a beginning: tensors that were live when the block began are in no event. They
are left out of its figures; `before_bytes` says how much they were, by the allocator's own count.

A guest tidies up, so that the figure does not depend on what ran before: when a block begins,
TensorFlow forgets the scalars that it keeps for the next op that takes the same, and Python's
garbage is collected; what then is left is kept out of the collector's sight, so that the collector
runs in the block when the block's own objects make it.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from runner.errors import Unavailable
from runner.records import COMPLETED, Phase, Trial
from runner.trial import reading
from runner.trial.devices import EXACT_ALLOCATOR
from runner.trial.measure import samples
from runner.trial.measure.calls import Calls
from runner.trial.measure.replay import NoAllocations, allocator_of
from runner.trial.measure.tracing import AllocationTracing


def arm() -> None:
    """Ask TensorFlow for the CPU allocator that counts every byte. It takes that when it runs its
    first op, and never again."""
    os.environ.setdefault(EXACT_ALLOCATOR, "1")


@dataclass(frozen=True)
class Seen:
    """What a block took."""

    trial: Trial
    before_bytes: int
    """Live when it began, and in none of the trial's figures; the allocator's rounding included."""


class Block:
    """Measured from the first `begin` to `finish`, or to `abandon`; in the thread that began it."""

    def __init__(self) -> None:
        self._tracing: AllocationTracing | None = None
        self._calls = Calls()
        self._hides_objects = False
        self._in_mark = False

    def begin(self, phase: Phase, step: int = 0) -> None:
        """The phase begins, and the one before ends. The first one raises `Unavailable` where this
        process can't be measured."""
        if self._tracing is None:
            self._tracing = self._started()
        self.end()
        self._in_mark = True
        self._tracing.begin(phase, step)

    def end(self) -> None:
        if self._tracing is not None and self._in_mark:
            _settle()
            self._tracing.end()
            self._tracing.between_steps()
            self._in_mark = False

    @contextmanager
    def mark(self, phase: Phase, step: int = 0) -> Iterator[None]:
        self.begin(phase, step)
        try:
            yield
        finally:
            self.end()

    def finish(self) -> Seen:
        """Collect what is garbage, and stop. Raises `Unavailable` where there are no figures."""
        assert self._tracing is not None, "a block that never began"
        try:
            with self.mark(Phase.COLLECTION):
                if gc.isenabled():
                    gc.collect()
            with _without_chatter():
                found = self._tracing.finish()
        finally:
            self._leave()
        if isinstance(found, NoAllocations):
            raise Unavailable(f"nothing could be measured: {found.reason}.")
        before = found.checks.live_before_bytes if found.checks else 0
        sampled = {**samples.of_memory_trial(found, {}), "allocations": found}
        return Seen(Trial("memory", 0, COMPLETED, **sampled), before)

    def abandon(self) -> None:
        """Stop, whatever was seen; nothing happens where nothing is under way."""
        if self._tracing is not None:
            with _without_chatter():
                self._tracing.finish()
            self._leave()

    def _started(self) -> AllocationTracing:
        pattern = _allocator()
        _forget_scalars()
        self._hides_objects = gc.isenabled() and not gc.get_freeze_count()
        if self._hides_objects:
            gc.collect()
            gc.freeze()
        self._calls.watch()
        tracing = AllocationTracing(pattern, witness=self._calls)
        with _without_chatter():
            tracing.start()
        return tracing

    def _leave(self) -> None:
        self._tracing = None
        self._calls.unwatch()
        if self._hides_objects:
            gc.unfreeze()


def _allocator() -> str:
    """A pattern for the allocator's name: the first GPU's where there is one, else the CPU's, if it
    is the one that counts every byte."""
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        return allocator_of("gpu")
    try:
        is_exact = reading.counts_every_byte()
    except ValueError:  # an allocator without figures
        is_exact = False
    if not is_exact:
        raise Unavailable(
            "TensorFlow ran its first op before the measurement was asked for, and so took the CPU "
            "allocator that does not count what is smaller than 262,144 bytes.",
            f"Set {EXACT_ALLOCATOR}=1 in the environment, or import and run nothing of "
            "TensorFlow's before.",
        )
    return allocator_of("cpu")


def _forget_scalars() -> None:
    from tensorflow.python.eager import context

    context.context()._clear_caches()


@contextmanager
def _without_chatter() -> Iterator[None]:
    """TensorFlow's profiler says on file descriptor 2 that it begins and ends: none of the user's
    business, who would find it beside the message of a test that failed. All else goes through."""
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


_CHATTER = re.compile(rb"(?:session_manager|profiler_session|save_profile)\.cc:\d+\] ")


def _settle() -> None:
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        tf.test.experimental.sync_devices()
