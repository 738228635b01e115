"""What hostile programs break: the child's side of `programs.py`."""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import gc
import io
import itertools
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import resource_tracker, shared_memory
from typing import Any, ClassVar

from runner.scenario import Bench, Executions, Step
from tests.attacks import exceptions

LEAST_SECONDS = 0.002
SHARED = "RUNNER_ATTACK_SHARED"
"""The variable with what the names of shared memory begin with."""
_kept: list[Any] = []
_sleep, _chdir, _write = time.sleep, os.chdir, os.write


def _fails(*_: object, **__: object) -> Any:
    raise RuntimeError("it was replaced")


def _replace(owner: Any, *names: str) -> None:
    for name in names:
        setattr(owner, name, _fails)


class _Stream(io.StringIO):
    """A stream that fails in other ways than streams do."""

    def write(self, _: str) -> int:
        raise SystemExit(4)

    def flush(self) -> None:
        raise KeyboardInterrupt


def _break_streams() -> None:
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = _Stream()  # type: ignore[misc]


def set_clocks(reading: Callable[[], float]) -> None:
    """As freezegun does it: in every module that is loaded."""
    names = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
    real = {id(getattr(time, name)) for name in names}
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if id(value) in real:
                setattr(module, name, reading)
    time.sleep = lambda seconds: None


def _leave_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _chdir(folder)


def _lose_scratch() -> None:
    shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)


def _write_by_habit() -> None:
    for descriptor in range(3, 1024):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"a line of nobody's\n")


def _unblock_everything() -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            fcntl.fcntl(int(name), fcntl.F_SETFL, os.O_NONBLOCK)


def _limit(kind: int, soft: int) -> None:
    resource.setrlimit(kind, (soft, resource.getrlimit(kind)[1]))


def _profile() -> None:
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        tf.profiler.experimental.stop()


def _ring() -> None:
    """A timer that goes on ringing, and whose handler does no harm."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)


def _fork_on() -> None:
    """Two processes come back, and go on as if each were the trial."""
    os.fork()


def _fork_and(end: Callable[[], object]) -> None:
    """A child that ends in its own way, as Python ends it, while its parent waits and goes on."""
    if (child := os.fork()) == 0:
        end()
    os.waitpid(child, 0)


def _raise(error: BaseException) -> None:
    raise error


def _leave_pool() -> None:
    pool = ThreadPoolExecutor(2)
    pool.submit(len, "abc").result()


def _trace(set_tracer: Callable[[Any], object]) -> None:
    names = {"kept": 1}
    exec("def tracer(*_):\n    return tracer if kept else None", names)
    set_tracer(names["tracer"])


def _share() -> None:
    resource_tracker.ensure_running()
    if os.write is not _write:
        return  # it could not be told of what is shared, and plain Python would leave it as well
    name = os.environ.get(SHARED, "runner-attack")
    _kept.append(shared_memory.SharedMemory(f"{name}-{os.getpid()}", create=True, size=100_000))


def _chatter() -> None:
    def speak() -> None:
        while True:
            os.write(1, b"so and so on\n" * 100)

    threading.Thread(target=speak, daemon=True).start()


HARMLESS: dict[str, Callable[[], object]] = {
    "json": lambda: _replace(json, "dumps", "dump", "loads", "load"),
    "os": lambda: _replace(os, "write", "_exit", "dup2"),
    "open": lambda: _replace(builtins, "open"),
    "chdir": lambda: _replace(os, "chdir", "getcwd"),
    "traceback": lambda: _replace(traceback, "print_exc", "print_exception", "extract_tb"),
    "streams": _break_streams,
    "close_streams": lambda: os.closerange(0, 3),
    "close_by_habit": lambda: os.closerange(3, 1024),
    "write_by_habit": _write_by_habit,
    "unblock": _unblock_everything,
    "frozen": lambda: set_clocks(lambda: 1_000_000),
    "backward": lambda: set_clocks(itertools.count(-(10**12), -(10**6)).__next__),
    "no_number": lambda: set_clocks(lambda: float("nan")),
    "folder": _leave_folder,
    "scratch": _lose_scratch,
    "environment": lambda: os.environ.pop("HOME", None),
    "collector": gc.disable,
    "hooks": lambda: (_replace(sys, "excepthook", "unraisablehook"), sys.settrace(None)),
    "ring": _ring,
    "fork": _fork_on,
    "fork_and_exit": lambda: _fork_and(sys.exit),
    "fork_and_fail": lambda: _fork_and(lambda: sys.exit(3)),
    "fork_and_raise": lambda: _fork_and(lambda: _raise(ValueError("of the child"))),
    "fork_and_run_out": lambda: _fork_and(lambda: _raise(MemoryError())),
    "pool": _leave_pool,
    "tracer": lambda: _trace(sys.settrace),
    "profiler_of_calls": lambda: _trace(sys.setprofile),
    "chatter": _chatter,
    "few_descriptors": lambda: _limit(resource.RLIMIT_NOFILE, 64),
}
"""What leaves a trial whole."""

HARMFUL: dict[str, Callable[[], object]] = {
    "no_files_at_all": lambda: _replace(os, "open", "close"),
    "io.open": lambda: _replace(io, "open"),
    "pathlib": lambda: _replace(pathlib.Path, "open", "read_text", "write_text", "mkdir"),
    "cleared": lambda: os.environ.clear(),
    "profiler": _profile,
    "no_files": lambda: _limit(resource.RLIMIT_FSIZE, 0),
    "close_everything": lambda: os.closerange(3, 8192),
    "no_isinstance": lambda: _replace(builtins, "isinstance"),
    "no_len": lambda: _replace(builtins, "len"),
    "no_getattr": lambda: _replace(builtins, "getattr"),
    "no_modules": sys.modules.clear,
    "shallow": lambda: sys.setrecursionlimit(60),
    "no_collect": lambda: _replace(gc, "collect", "isenabled"),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(3),
    "share": _share,
    "daemonize": lambda: os.fork() and os._exit(0),
}
"""What may cost the trial, and no more than that."""

BREAKS = {**HARMLESS, **HARMFUL}


@dataclass(frozen=True)
class Hostile:
    """Breaks these things in a phase, and raises a broken exception where it has a number."""

    executions: ClassVar[Executions] = ("eager",)

    breaks: tuple[str, ...]
    phase: str
    error: int | None

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        calls = 0

        def act(phase: str) -> None:
            if phase != self.phase:
                return
            for name in self.breaks:
                BREAKS[name]()
            if self.error is not None:
                raise exceptions.make_error(random.Random(self.error))

        act("build")

        def step() -> None:
            nonlocal calls
            calls += 1
            _sleep(LEAST_SECONDS)
            tf.fill([100], 1.0)
            if calls <= 2:
                act("first_call" if calls == 1 else "steps")

        return step
