"""Owns TensorFlow's profiler in a memory trial: windows, marks, the watchdog, and the replay's feed.

    tracing = AllocationTracing(allocator_of("cpu"))
    tracing.start()                              # before the first op, TF_CPU_ALLOCATOR_USE_BFC=1
    with tracing.mark(Phase.STEPS, 3):           # or tracing.begin(...), tracing.end()
        ...                                      # the step; its result is dropped in here
    tracing.between_steps()                      # closes a window when it is due
    result = tracing.finish()                    # Allocations, or NoAllocations with the reason

The profiler keeps every event in memory until it stops: 0.7 kB each, and 3.2 kB while it writes
them out. So a trial is traced in windows, closed between steps, each as long as the steps seen so
far say that `bound` events take. Where one step alone goes far past the bound, a watchdog thread
stops the profiler, throws its events away, and the trial goes on without figures.
"""

from __future__ import annotations

import ctypes
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.measure import xplane
from runner.measure.allocations import MOST_TRACE_EVENTS, Allocations, NoAllocations, Replay
from runner.records import Phase

BYTES_PER_EVENT = 700
"""What the profiler holds for one event while it traces."""

_WATCH_SECONDS = 0.1


class AllocationTracing:
    """Traces one trial's allocations. Not to be started twice."""

    def __init__(self, allocator: str, bound: int = MOST_TRACE_EVENTS, slack: int = 10) -> None:
        """`bound`: events that a window should hold. A step may take `slack` times as many."""
        self._replay = Replay(allocator)
        self._bound = bound
        self._limit_bytes = bound * slack * BYTES_PER_EVENT
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._reason: str | None = None
        self._mark: Any = None
        self._where = "before the first phase"
        self._steps_in_window = 0
        self._most_events_per_step = 0.0
        self._watchdog: threading.Thread | None = None
        self._finished = threading.Event()
        self._base_bytes = 0

    def start(self) -> None:
        """Begin to trace. Call it before the first op: what was there before can't be seen."""
        self._folder = tempfile.TemporaryDirectory(prefix="runner-trace-")
        self._open()
        self._watchdog = threading.Thread(target=self._watch, name="trace-watchdog", daemon=True)
        self._watchdog.start()

    @contextmanager
    def mark(self, phase: Phase, step: int = 0) -> Iterator[None]:
        """Everything in the block belongs to this phase, or to this steady step."""
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
        self._steps_in_window += 1

    def between_steps(self) -> None:
        """Close the window if it is full; call it when no mark is open."""
        if self._reason is None and self._due():
            self._close(reopen=True)

    def finish(self) -> Allocations | NoAllocations:
        """Stop tracing, remove the files, and say what was allocated."""
        self._finished.set()
        if self._watchdog is not None:
            self._watchdog.join()
        if self._reason is None:
            self._close(reopen=False)
        if self._folder is not None:
            self._folder.cleanup()
        return self._replay.result() if self._reason is None else NoAllocations(self._reason)

    def _due(self) -> bool:
        return window_is_full(
            self._bound,
            self._steps_in_window,
            self._most_events_per_step,
            (heap_bytes() - self._base_bytes) // BYTES_PER_EVENT,
        )

    def _open(self) -> None:
        import tensorflow as tf

        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=0
        )
        self._base_bytes = heap_bytes()
        self._steps_in_window = 0
        assert self._folder is not None
        tf.profiler.experimental.start(self._folder.name, options)

    def _close(self, reopen: bool) -> None:
        import tensorflow as tf

        with self._lock:
            if self._reason is not None:
                return
            steps = max(self._steps_in_window, 1)
            try:
                tf.profiler.experimental.stop()
            except Exception as error:
                self._reason = f"the profiler could not write its events: {error}"
                return
            assert self._folder is not None
            written = list(Path(self._folder.name).rglob("*.xplane.pb"))
            contents = [path.read_bytes() for path in written]
            for path in written:
                path.unlink()
            if reopen:
                self._open()
        try:
            for content in contents:
                window = xplane.parse(content)
                self._most_events_per_step = max(
                    self._most_events_per_step, window.trace_events / steps
                )
                self._replay.feed(window)
        except xplane.XPlaneError as error:
            self._discard(f"the profiler's file could not be read: {error}")

    def _discard(self, reason: str) -> None:
        import tensorflow as tf

        with self._lock:
            if self._reason is None:
                self._reason = reason
                tf.profiler.experimental.stop(save=False)

    def _watch(self) -> None:
        while not self._finished.wait(_WATCH_SECONDS):
            held = heap_bytes() - self._base_bytes
            if held > self._limit_bytes:
                self._discard(
                    f"{self._where} alone made more events than are traced "
                    f"(about {held // BYTES_PER_EVENT:,}; windows hold {self._bound:,})"
                )
                return


def window_is_full(bound: int, steps: int, events_per_step: float, events_held: float) -> bool:
    """Whether to close a window now, from the events of the steps so far: yes, once another step
    might pass the bound; and after the first step, to learn what a step takes."""
    if not events_per_step:
        return steps > 0
    return (steps + 1) * events_per_step > bound or events_held > bound


class _Heap(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def heap_bytes() -> int:
    """Bytes in use on malloc's heap, blocks large enough for a mapping of their own left out: the
    profiler's events are among them, tensors and large arrays are not."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Heap
    return int(library.mallinfo2().uordblks)
