"""Own TensorFlow's profiler in a memory trial: windows, marks, watchdog, and feeding the replay.

    tracing = AllocationTracing(name_allocator("cpu"))
    tracing.start()                              # before the first op, TF_CPU_ALLOCATOR_USE_BFC=1
    tracing.begin(Phase.STEPS, 3)
    ...                                          # the step; its result is dropped in here
    tracing.end(Phase.STEPS, 3)
    result = tracing.finish()                    # TraceResult, or NoAllocations with the reason

The profiler keeps every event in memory until it stops, and takes about five times as much while it
writes them out. So a trial is traced in windows, closed between steps. A watchdog thread looks
every 50 ms at what the profiler may hold: past `window_bytes` the window is closed at the next
chance; past `most_bytes`, which only a single step or phase can reach, it is closed at once. If its
events are many, tracing ends, and the trial goes on without figures; the reason says what was live
at least, as far as it was traced.

What the profiler may hold is read from malloc, as growth of what is in use on its heap: there is no
other sign of it. A graph that is made or compiled is on the same heap (XLA takes 0.8 GB for
ResNet50). So where the file of the closed window is small, the heap was somebody else's, and
tracing goes on: the phase or the step has two windows then.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner.meters.host import malloc
from runner.meters.host.resident import read_room_bytes
from runner.meters.tensor.recording import Recording
from runner.meters.tensor.replay import NoAllocations, Replay, TraceResult
from runner.meters.tensor.trace_reader import XPlaneError, read_window
from runner.meters.tensor.window import DROPPED, MARK, Window
from runner.metrics import format_bytes
from runner.records import Phase
from runner.versions import describe_untried

WINDOW_BYTES = 64_000_000
"""The profiler may hold this before its window is closed: 100,000 to 400,000 events of all kinds,
at 170 to 600 bytes each. Writing them out takes a second or two."""

MOST_BYTES = 512_000_000
"""The most that it may hold, where there is room for it: one step's 1 to 3 million events."""

_HELD_PER_WRITTEN = 4
"""What the profiler holds of events by what it writes of them: 3.8 to 4.7 was measured."""

_SHARE_OF_ROOM = 1 / 16
"""The share of free memory that the profiler may hold: it takes some five times that
to write the events out."""

_WATCH_SECONDS = 0.05

_PART = signal.SIGRTMIN + 7
"""The watchdog's signal to the program's thread; hardly any program has a use for it."""


class AllocationTracing:
    """Traces one trial's allocations, and is its meter. To be started once."""

    def __init__(
        self,
        allocator: str,
        window_bytes: int = WINDOW_BYTES,
        most_bytes: int = MOST_BYTES,
        also: Callable[[Window], None] | None = None,
        recording: Recording | None = None,
        parts_build: bool = False,
    ) -> None:
        """Take bounds of a window: 0 gives every span one of its own; `also` is given each. With
        `parts_build` a full window is closed within the build, too: it then has several marks."""
        self._replay = Replay(allocator, recording)
        self._also = also
        self._most_bytes = min(most_bytes, int(read_room_bytes() * _SHARE_OF_ROOM))
        self._window_bytes = min(window_bytes, self._most_bytes // 2)
        name = f"runner-trace-{os.getpid()}-{secrets.token_hex(4)}"
        self._folder = Path(tempfile.gettempdir()) / name  # is there only while a file is read
        self._lock = threading.RLock()  # the profiler has one owner at a time: us or the watchdog
        self._is_tracing = False
        self._reason: str | None = None
        self._parts_build = parts_build
        self._marked: tuple[Phase, int] | None = None
        self._is_cut = False
        """The window began within a phase or a step."""
        self._where = "the time before the first phase"
        self._mark: Any = None
        self._empty_bytes = 0
        self._is_full = False
        self._finished = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, name="trace-watchdog", daemon=True)
        self._profiler = _OwnProfiler()

    def start(self) -> None:
        """Begin to trace. Call it before the first op: what was there before can't be seen."""
        if malloc.info is None:
            self._reason = "this malloc isn't glibc's, so what the profiler holds can't be bounded"
            return
        self._profiler.take_over()
        if self._parts_build:
            self._thread = threading.get_ident()
            signal.signal(_PART, self._part_build)
            signal.siginterrupt(_PART, False)
        with self._lock:
            self._open()
        self._watchdog.start()

    def begin(self, phase: Phase, step: int = 0) -> None:
        """Begin the mark of a phase or a step; marks don't nest."""
        import tensorflow as tf

        with self._lock:
            self._where = f"step {step}" if phase is Phase.STEPS else str(phase)
            self._mark = tf.profiler.experimental.Trace(MARK + phase, index=step)
            self._mark.__enter__()
            self._marked = phase, step

    def end(self, phase: Phase, step: int = 0) -> None:
        """End the mark, and close the window if it is full."""
        self._end_mark()
        if self._is_full or self._window_bytes == 0:
            self._close(reopen=True)

    def _part_build(self, *_: object) -> None:
        """Close the window within the build: Python calls this between two of its instructions, so
        that no op of the program's own thread is under way."""
        if self._is_full and self._is_building():
            self._cut()

    def _is_building(self) -> bool:
        return self._marked is not None and self._marked[0] is Phase.BUILD

    def _cut(self, most_written: float = math.inf) -> None:
        """Close the window within what is marked, and go on in another one; not if more was written
        than that."""
        marked = self._marked
        self._end_mark()
        self._close(reopen=True, most_written=most_written)
        self._is_cut = True
        if marked is not None:
            self.begin(*marked)

    def _end_mark(self) -> None:
        with self._lock:
            self._marked = None
            mark, self._mark = self._mark, None
            if mark is not None:
                mark.__exit__(None, None, None)

    def drop(self, phase: Phase, step: int) -> None:
        """End the mark; what it was put around was no phase, and no step."""
        if self._mark is not None:
            self._mark.set_metadata(**{DROPPED: 1})
        self.end(phase, step)

    def finish(self) -> TraceResult | NoAllocations:
        """Stop tracing, and say what was allocated; of a step that failed half-way, too."""
        self._end_mark()
        self._finished.set()
        if self._watchdog.is_alive():
            self._watchdog.join()
        self._close(reopen=False)
        self._profiler.give_back()
        if self._reason is not None:
            shown = self._replay.shown_bytes
            least = f"; its tensors take at least {format_bytes(shown)}" if shown else ""
            return NoAllocations(self._reason + least)
        import tensorflow as tf

        return distrust_untried(self._replay.result(), tf.__version__)

    def _open(self) -> None:
        self._empty_bytes = _read_heap_bytes()
        self._is_full = False
        try:
            self._profiler.start(self._folder)
            self._is_tracing = True
        except Exception as error:  # a session of the program's own, from before
            self._reason = (
                f"the profiler could not be started: {error} Stop what else profiles this process"
            )

    def _close(self, reopen: bool, most_written: float = math.inf) -> None:
        """Write the window out, begin the next one at once, unless more was written than that, and
        only then read the first."""
        with self._lock:  # while we read, what the heap holds is ours
            if not self._is_tracing:
                return
            content = self._read_trace()
            if content is not None and reopen and len(content) <= most_written:
                self._open()
            is_cut, self._is_cut = self._is_cut, False
            try:
                if content is not None:
                    window = read_window(content)
                    self._replay.feed(window, is_cut)
                    if self._also is not None:
                        self._also(window)
            except XPlaneError as error:
                self._give_up(f"the profiler's file can't be read: {error}")

    def _read_trace(self) -> bytes | None:
        """Stop the profiler, and return what it wrote; None where it could not write."""
        self._is_tracing = False
        try:
            self._profiler.stop(save=True)
            (path,) = self._folder.rglob("*.xplane.pb")
            return path.read_bytes()
        except Exception as error:  # a full disk, most likely
            self._reason = f"the profiler's events could not be written: {error}"
            return None
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            malloc.trim()

    def _give_up(self, reason: str) -> None:
        """Stop tracing and drop the events unwritten."""
        self._reason = self._reason or reason
        if self._is_tracing:
            self._is_tracing = False
            self._profiler.stop(save=False)
            malloc.trim()

    def _watch(self) -> None:
        while not self._finished.wait(_WATCH_SECONDS):
            with self._lock:
                if not self._is_tracing:
                    continue
                held = _read_heap_bytes() - self._empty_bytes
                self._is_full = self._is_full or held > self._window_bytes
                if held > self._most_bytes:
                    self._cut(most_written=self._window_bytes / _HELD_PER_WRITTEN)
                    if not self._is_tracing:
                        self._give_up(
                            f"{self._where} alone makes more events than can be traced: "
                            f"{held / 1e6:,.0f} MB were held when the profiler was stopped"
                        )
            if self._is_full and self._parts_build and self._is_building():
                signal.pthread_kill(self._thread, _PART)


def distrust_untried(result: TraceResult, version: str) -> TraceResult | NoAllocations:
    """Return the result, unless TensorFlow's version was not tried and its trace has gaps."""
    untried = describe_untried("tensorflow", version)
    if untried and not (result.checks and result.checks.is_clean):
        return NoAllocations(f"{untried}, and its trace does not add up to its own total")
    return result


class _OwnProfiler:
    """TensorFlow's profiler; what the program starts until it is given back is put off."""

    def __init__(self) -> None:
        import tensorflow as tf
        from tensorflow.python.profiler import profiler_v2

        self._owners = (profiler_v2, tf.profiler.experimental)
        self._start, self.stop = profiler_v2.start, profiler_v2.stop
        self._options = profiler_v2.ProfilerOptions(host_tracer_level=2, device_tracer_level=0)
        self._is_put_off = False
        """The program has started one, and not stopped it."""

    def take_over(self) -> None:
        self._replace(self._start_users, self._stop_users)

    def _replace(self, start: Callable[..., None], stop: Callable[..., None]) -> None:
        for owner in self._owners:
            owner.start, owner.stop = start, stop

    def start(self, folder: Path) -> None:
        self._start(str(folder), self._options)

    def give_back(self) -> None:
        """Let the program profile itself again."""
        self._replace(self._start, self.stop)

    def _start_users(self, logdir: Any, options: Any = None) -> None:
        from tensorflow.python.framework import errors

        if self._is_put_off:  # as TensorFlow would answer to the second of two
            raise errors.AlreadyExistsError(None, None, "Another profiler is running.")
        self._is_put_off = True
        print(
            "runner: the program's own profiler does not run here: a memory trial has TensorFlow's "
            "profiler to itself. In a timing trial it runs.",
            file=sys.stderr,
        )

    def _stop_users(self, save: bool = True) -> None:
        from tensorflow.python.framework import errors

        if not self._is_put_off:
            raise errors.UnavailableError(None, None, "No profiler of the program's is running.")
        self._is_put_off = False


def _read_heap_bytes() -> int:
    """Return what malloc's heap holds: the profiler's events, and no tensors or large arrays."""
    return malloc.info().heap_bytes if malloc.info else 0
