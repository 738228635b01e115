"""Owns TensorFlow's profiler in a memory trial: windows, marks, watchdog, and feeding the replay.

    tracing = AllocationTracing(allocator_of("cpu"))
    tracing.start()                              # before the first op, TF_CPU_ALLOCATOR_USE_BFC=1
    with tracing.mark(Phase.STEPS, 3):           # or tracing.begin(...) and tracing.end()
        ...                                      # the step; its result is dropped in here
    tracing.between_steps()                      # closes a window when it is due
    result = tracing.finish()                    # Allocations, or NoAllocations with the reason

The profiler keeps every event in memory until it stops, and takes several times as much while it
writes them out. So a trial is traced in windows, closed between steps. A watchdog thread looks
every 50 ms at what the profiler holds: past `window_bytes` the window is closed at the next chance;
past `most_bytes`, which only a single step or phase can reach, tracing stops at once, its events
are thrown away unwritten, and the trial goes on without figures.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.measure import xplane
from runner.measure.allocations import Allocations, NoAllocations, Replay
from runner.records import Phase

WINDOW_BYTES = 64_000_000
"""What the profiler may hold before its window is closed: some 150,000 events. Writing them out
takes about four times that, and a second."""

MOST_BYTES = 512_000_000
"""What it may hold at all: some 1,200,000 events in one step."""

_WATCH_SECONDS = 0.05


class AllocationTracing:
    """Traces one trial's allocations. To be started once."""

    def __init__(
        self, allocator: str, window_bytes: int = WINDOW_BYTES, most_bytes: int = MOST_BYTES
    ) -> None:
        """`window_bytes=0` makes every step a window of its own."""
        self._replay = Replay(allocator)
        self._window_bytes = window_bytes
        self._most_bytes = most_bytes
        self._folder = Path(tempfile.gettempdir()) / f"runner-trace-{os.getpid()}"
        self._lock = threading.Lock()  # the profiler has one owner at a time: us or the watchdog
        self._tracing = False
        self._reason: str | None = None
        self._where = "the time before the first phase"
        self._mark: Any = None
        self._empty_bytes = 0
        self._is_full = False
        self._finished = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, name="trace-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to trace. Call it before the first op: what was there before can't be seen."""
        with self._lock:
            self._open()
        self._watchdog.start()

    @contextmanager
    def mark(self, phase: Phase, step: int = 0) -> Iterator[None]:
        """Everything in the block belongs to this phase or, of `Phase.STEPS`, to this step."""
        self.begin(phase, step)
        try:
            yield
        finally:
            self.end()

    def begin(self, phase: Phase, step: int = 0) -> None:
        import tensorflow as tf

        self._where = f"step {step}" if phase is Phase.STEPS else str(phase)
        self._mark = tf.profiler.experimental.Trace(xplane.MARK + phase, index=step)
        self._mark.__enter__()

    def end(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def between_steps(self) -> None:
        """Close the window if it is full. Call it often, while no mark is open: it costs nothing
        if it isn't."""
        if self._is_full or self._window_bytes == 0:
            self._close(reopen=True)

    def finish(self) -> Allocations | NoAllocations:
        """Stop tracing, and say what was allocated; of a step that failed half-way, too."""
        self.end()
        self._finished.set()
        self._watchdog.join()
        self._close(reopen=False)
        return self._replay.result() if self._reason is None else NoAllocations(self._reason)

    def _open(self) -> None:
        import tensorflow as tf

        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=0
        )
        self._empty_bytes = _heap_bytes()
        self._is_full = False
        tf.profiler.experimental.start(str(self._folder), options)
        self._tracing = True

    def _close(self, reopen: bool) -> None:
        """Write the window out, begin the next one at once, and only then read the first."""
        import tensorflow as tf

        with self._lock:
            if not self._tracing:
                return
            self._tracing = False
            try:
                tf.profiler.experimental.stop()
                contents = [path.read_bytes() for path in self._folder.rglob("*.xplane.pb")]
            except Exception as error:
                self._reason = f"the profiler could not write its events: {error}"
                return
            finally:
                shutil.rmtree(self._folder, ignore_errors=True)
            if reopen:
                self._open()
        try:
            for content in contents:
                self._replay.feed(xplane.parse(content))
        except xplane.XPlaneError as error:
            with self._lock:
                self._give_up(f"the profiler's file can't be read: {error}")

    def _give_up(self, reason: str) -> None:
        """Stop tracing and drop the events unwritten."""
        import tensorflow as tf

        self._reason = self._reason or reason
        if self._tracing:
            self._tracing = False
            tf.profiler.experimental.stop(save=False)

    def _watch(self) -> None:
        while not self._finished.wait(_WATCH_SECONDS):
            with self._lock:
                if not self._tracing:
                    continue
                held = _heap_bytes() - self._empty_bytes
                self._is_full = self._is_full or held > self._window_bytes
                if held > self._most_bytes:
                    self._give_up(
                        f"{self._where} alone makes more allocation events than can be traced: "
                        f"the profiler held {held / 1e6:,.0f} MB of them and was stopped"
                    )


class _Heap(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def _heap_bytes() -> int:
    """Bytes in use on malloc's heap, blocks with a mapping of their own left out: the profiler's
    events are among them, tensors and large arrays are not."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Heap
    return int(library.mallinfo2().uordblks)
