"""Scenarios that end badly, each in its own way, in the phase that they are told."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any, ClassVar

from runner.scenario import Bench, Executions, Step

_kept: list[Any] = []


class Unsendable(Exception):
    """An exception that can't even be described."""

    def __str__(self) -> str:
        raise RuntimeError("no description")


def _out_of_memory() -> None:
    import tensorflow as tf

    kept = []
    while True:
        kept.append(tf.zeros([1000, 1000]))


def _flood() -> None:
    line = b"x" * 1023 + b"\n"
    for _ in range(20_000):
        os.write(1, line)
        os.write(2, line)


def _write_to(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.write(descriptor, b"a line of nobody's\n")


def _replace_functions() -> None:
    """As a library does it that knows better, or has not looked."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("it was replaced")

    json.dumps = json.dump = json.JSONEncoder.default = fails  # type: ignore[method-assign]
    os.write = os._exit = os.dup2 = fails  # type: ignore[spec]
    traceback.print_exc = fails


def _patch_open() -> None:
    """As a library for tests does it that keeps files in memory."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("open was patched")

    builtins.open = fails  # type: ignore[assignment]


def _leave_a_process_behind() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(os.environ.get("FAULT_PID_FILE", "/dev/null")).write_text(str(child.pid))


def _leave_a_daemon_behind() -> None:
    """As a daemon does it: in a session of its own, its parent gone, every descriptor kept."""
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    Path(os.environ["FAULT_PID_FILE"]).write_text(str(os.getpid()))
    time.sleep(600)


def _leave_a_daemon_and(end: Any) -> Any:
    def both() -> None:
        _leave_a_daemon_behind()
        while not Path(os.environ["FAULT_PID_FILE"]).read_text():
            time.sleep(0.01)
        end()

    return both


def _write_without_looking() -> None:
    """What native code does that never expects malloc to give nothing."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    ctypes.memset(libc.malloc(400_000_000) or 0, 1, 8)


def _throw_bad_alloc() -> None:
    """What C++ does that never catches it."""
    ctypes.CDLL("libstdc++.so.6")._ZSt17__throw_bad_allocv()


def _be_killed_by_the_kernel() -> None:
    """Count it as the kernel does, in the file of a cgroup."""
    Path(os.environ["FAULT_PID_FILE"]).write_text("low 0\noom 3\noom_kill 1\n")
    os.kill(os.getpid(), signal.SIGKILL)


def _recurse() -> None:
    _recurse()


def _mind_a_child() -> None:
    """As a loader of data does it: the end of a worker is an error."""

    def say_so(*_: object) -> None:
        raise RuntimeError("a worker ended")

    _kept.append(subprocess.Popen(["sleep", "600"]))
    signal.signal(signal.SIGCHLD, say_so)


def _supervise() -> None:
    """Whoever ends is started again."""

    def go_on() -> None:
        while True:
            subprocess.run(["sleep", "600"], check=False)

    threading.Thread(target=go_on, daemon=True).start()
    time.sleep(0.1)


def _replace_the_streams() -> None:
    sys.stdout = object()  # type: ignore[spec]
    sys.stderr = None  # type: ignore[spec]


def _close_the_streams() -> None:
    os.closerange(0, 3)


ENDS: dict[str, Any] = {
    "none": lambda: None,
    "exception": lambda: [][1],
    "unsendable": lambda: (_ for _ in ()).throw(Unsendable()),
    "out_of_memory": _out_of_memory,
    "sys_exit": lambda: sys.exit(3),
    "sys_exit_0": lambda: sys.exit(0),
    "os_exit": lambda: os._exit(7),
    "os_exit_0": lambda: os._exit(0),
    "os_exit_255": lambda: os._exit(255),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "killed_by_the_kernel": _be_killed_by_the_kernel,
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "write_without_looking": _write_without_looking,
    "throw_bad_alloc": _throw_bad_alloc,
    "hang": lambda: time.sleep(600),
    "flood": _flood,
    "close_everything": lambda: os.closerange(3, 8192),
    "close_by_habit": lambda: os.closerange(3, 1024),
    "write_to_everything": lambda: _write_to(range(3, 8192)),
    "write_by_habit": lambda: _write_to(range(3, 1024)),
    "replace_functions": _replace_functions,
    "patch_open": _patch_open,
    "leave_a_process": _leave_a_process_behind,
    "daemon": _leave_a_daemon_behind,
    "daemon_segfault": _leave_a_daemon_and(lambda: ctypes.string_at(0)),
    "daemon_hang": _leave_a_daemon_and(lambda: time.sleep(600)),
    "mind_a_child": _mind_a_child,
    "supervise": _supervise,
    "replace_streams": _replace_the_streams,
    "close_streams": _close_the_streams,
    "stop_server": lambda: os.kill(os.getppid(), signal.SIGSTOP),
    "stop_itself": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "surrogates": lambda: (_ for _ in ()).throw(ValueError("a\ud800b\x1b[2J")),
    "no_memory": lambda: (_ for _ in ()).throw(MemoryError()),
    "recursion": lambda: _recurse(),
    "stop_iteration": lambda: next(iter(())),
    "keyboard_interrupt": lambda: signal.raise_signal(signal.SIGINT),
}


@dataclass(frozen=True)
class Fault:
    """Ends as `end` says when it comes to `phase` (`build`, `first_call` or `steps`)."""

    executions: ClassVar[Executions] = ("eager",)

    end: str
    phase: str
    pid_file: str = "/dev/null"

    def build(self, bench: Bench) -> Step:
        calls = 0
        os.environ["FAULT_PID_FILE"] = self.pid_file
        if self.phase == "build":
            ENDS[self.end]()

        def step() -> None:
            nonlocal calls
            calls += 1
            if self.phase == ("first_call" if calls == 1 else "steps"):
                ENDS[self.end]()

        return step


@dataclass(frozen=True)
class Shares:
    """Shares memory and a lock with processes that it starts, and forgets them; ends as a `Fault`
    does in its first step."""

    executions: ClassVar[Executions] = ("eager",)

    end: str
    name: str

    def build(self, bench: Bench) -> Step:
        _kept.append(shared_memory.SharedMemory(self.name, create=True, size=1_000_000))
        _kept.append(multiprocessing.get_context("spawn").Lock())
        return Fault(self.end, "first_call").build(bench)


@dataclass(frozen=True)
class Spike:
    """Fills host memory for a moment: 400 MB, held for as long as `seconds`."""

    executions: ClassVar[Executions] = ("eager",)

    megabytes: int
    seconds: float

    def build(self, bench: Bench) -> Step:
        import numpy as np

        def step() -> None:
            block = np.ones(self.megabytes * 1_000_000 // 8)
            time.sleep(self.seconds)
            del block

        return step


def _run_one_op_for_ever() -> None:
    import tensorflow as tf

    # A matrix of its own size in each iteration, so that there are few events until the deadline.
    product = tf.eye(500)
    tf.function(lambda: tf.while_loop(lambda x: True, lambda x: (x @ product,), (product,)))()


def _spin() -> None:
    while True:
        pass


OCCUPATIONS = {"spin": _spin, "op": _run_one_op_for_ever}


@dataclass(frozen=True)
class Late:
    """Holds 4 MB, makes another 4 MB in each step, and is busy for ever in its third one."""

    executions: ClassVar[Executions] = ("eager",)

    occupation: str

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        held, calls = tf.fill([1000, 1000], 1.0), 0

        def step() -> None:
            nonlocal calls
            calls += 1
            made = held + 1.0
            del made
            if calls == 3:
                OCCUPATIONS[self.occupation]()

        return step


@dataclass(frozen=True)
class Slow:
    """Takes its time for each step."""

    executions: ClassVar[Executions] = ("eager",)

    seconds: float

    def build(self, bench: Bench) -> Step:
        return lambda: time.sleep(self.seconds)


@dataclass(frozen=True)
class EndTheServer:
    """Ends the warm server under its own feet, the first time that it is run."""

    executions: ClassVar[Executions] = ("eager",)

    marker: str

    def build(self, bench: Bench) -> Step:
        with contextlib.suppress(FileExistsError):
            Path(self.marker).touch(exist_ok=False)
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return lambda: None
