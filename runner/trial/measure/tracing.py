"""Owns TensorFlow's profiler in a memory trial: windows, marks, watchdog, and feeding the replay.

    tracing = AllocationTracing(allocator_of("cpu"))
    tracing.start()                              # before the first op, TF_CPU_ALLOCATOR_USE_BFC=1
    with tracing.mark(Phase.STEPS, 3):           # or tracing.begin(...) and tracing.end()
        ...                                      # the step; its result is dropped in here
    tracing.between_steps()                      # closes a window when it is due
    result = tracing.finish()                    # Traced, or NoAllocations with the reason

The profiler keeps every event in memory until it stops, and takes about five times as much while it
writes them out. So a trial is traced in windows, closed between steps. A watchdog thread looks
every 50 ms at what the profiler holds: past `window_bytes` the window is closed at the next chance;
past `most_bytes`, which only a single step or phase can reach, tracing stops at once, its events
are thrown away unwritten, and the trial goes on without figures.

What the profiler holds is read from malloc, as growth of what is in use on its heap: there is no
other sign of it. A graph that is made or compiled is on the same heap (XLA takes 0.2 GB for six
transformer blocks), so `most_bytes` is generous where the machine is.
"""

from __future__ import annotations

import os
import resource
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.records import Phase
from runner.trial.measure import malloc, xplane
from runner.trial.measure.origins import Witness
from runner.trial.measure.replay import NoAllocations, Replay, Traced

WINDOW_BYTES = 64_000_000
"""What the profiler may hold before its window is closed: 100,000 to 400,000 events of all kinds,
at 170 to 600 bytes each. Writing them out takes a second or two."""

MOST_BYTES = 512_000_000
"""What it may hold at all, where there is room for it: one step's 1 to 3 million events."""

_SHARE_OF_ROOM = 1 / 16
"""Of the memory that is to be had, the profiler may hold this much: it takes some five times that
to write the events out."""

_WATCH_SECONDS = 0.05


class AllocationTracing:
    """Traces one trial's allocations. To be started once."""

    def __init__(
        self,
        allocator: str,
        window_bytes: int = WINDOW_BYTES,
        most_bytes: int = MOST_BYTES,
        also: Callable[[xplane.Window], None] | None = None,
        witness: Witness | None = None,
    ) -> None:
        """`window_bytes=0` makes every step a window of its own; `also` is given each window."""
        self._replay = Replay(allocator, witness)
        self._also = also
        self._most_bytes = min(most_bytes, int(_room_bytes() * _SHARE_OF_ROOM))
        self._window_bytes = min(window_bytes, self._most_bytes // 2)
        name = f"runner-trace-{os.getpid()}-{secrets.token_hex(4)}"
        self._folder = Path(tempfile.gettempdir()) / name  # is there only while a file is read
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
        if malloc.info is None:
            self._reason = "this malloc isn't glibc's, so what the profiler holds can't be bounded"
            return
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

    def finish(self) -> Traced | NoAllocations:
        """Stop tracing, and say what was allocated; of a step that failed half-way, too."""
        self.end()
        self._finished.set()
        if self._watchdog.is_alive():
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
        try:
            tf.profiler.experimental.start(str(self._folder), options)
            self._tracing = True
        except Exception as error:  # someone else's session, most likely
            self._reason = f"the profiler could not be started: {error}"

    def _close(self, reopen: bool) -> None:
        """Write the window out, begin the next one at once, and only then read the first."""
        with self._lock:  # while we read, what the heap holds is ours
            if not self._tracing:
                return
            content = self._written()
            if reopen and self._reason is None:
                self._open()
            try:
                if content is not None:
                    window = xplane.parse(content)
                    self._replay.feed(window)
                    if self._also is not None:
                        self._also(window)
            except xplane.XPlaneError as error:
                self._give_up(f"the profiler's file can't be read: {error}")

    def _written(self) -> bytes | None:
        """Stop the profiler; what it wrote."""
        import tensorflow as tf

        self._tracing = False
        try:
            tf.profiler.experimental.stop()
            (path,) = self._folder.rglob("*.xplane.pb")
            return path.read_bytes()
        except Exception as error:  # a full disk; or user code stopped the profiler
            self._reason = f"the profiler's events could not be written: {error}"
            return None
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            malloc.trim()

    def _give_up(self, reason: str) -> None:
        """Stop tracing and drop the events unwritten."""
        import tensorflow as tf

        self._reason = self._reason or reason
        if self._tracing:
            self._tracing = False
            tf.profiler.experimental.stop(save=False)
            malloc.trim()

    def _watch(self) -> None:
        while not self._finished.wait(_WATCH_SECONDS):
            with self._lock:
                if not self._tracing:
                    continue
                held = _heap_bytes() - self._empty_bytes
                self._is_full = self._is_full or held > self._window_bytes
                if held > self._most_bytes:
                    self._give_up(
                        f"{self._where} alone makes more events than can be traced: "
                        f"{held / 1e6:,.0f} MB were held when the profiler was stopped"
                    )


def _room_bytes() -> int:
    """What this process may still take: of the machine's memory, and under its own limit."""
    room = _kilobytes("/proc/meminfo", "MemAvailable") * 1024
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit != resource.RLIM_INFINITY:
        room = min(room, limit - _kilobytes("/proc/self/status", "VmData") * 1024)
    return max(room, 0)


def _kilobytes(path: str, name: str) -> int:
    lines = Path(path).read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _heap_bytes() -> int:
    """The profiler's events are among them, tensors and large arrays are not."""
    return malloc.info().heap_bytes if malloc.info else 0
