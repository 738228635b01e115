"""The zygote: a process that has loaded what is slow to load, and forks a child on each request.

It alone can wait for its children, so it reports how each ended (`protocol.py`); and as it adopts
what they leave behind, it kills that first. It ends with its parent, and then nothing is left of
either: no process, and no temporary file.

`start.py` runs `serve`, which returns in each child what that is to call: so a child's own work
has next to nothing below it on the stack, which TensorFlow walks for every op.
"""

from __future__ import annotations

import functools
import importlib
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from runner.processes import process_tree, protocol, scratch
from runner.processes.protocol import Channel, Ended, Forked, Refused, Task

_WATCHED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)


def serve(
    requests: int, locks: Sequence[int], parent: int, preload: str, folder: str
) -> Callable[[], object]:
    """Load what `preload` names and fork a child on each request.

    Returns in children alone. `locks` are closed there; `folder` is removed when the parent ends.
    """
    zygote = _Zygote(socket.socket(fileno=requests), locks, parent, Path(folder))
    scratch.remove_abandoned()  # before what takes seconds: it may be killed in the midst of that
    _import(preload)()
    return zygote.fork_on_request()


def enter(task: Task) -> None:
    """Make this child stand where its parent does; wait until the former children have left."""
    sys.path[:], sys.argv[:] = task.path, task.arguments
    tempfile.tempdir = os.environ["TMPDIR"] = task.scratch
    os.chdir(task.folder)
    process_tree.wait_for_ends(task.former)  # what they held is free again, and their cores


def _import(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


class _Zygote:
    """Sleeps until there is a request, a child has ended, or the parent has hung up."""

    def __init__(
        self, requests: socket.socket, locks: Sequence[int], parent: int, folder: Path
    ) -> None:
        self._pid = os.getpid()
        self._parent = parent
        self._folder = folder
        self._requests = requests
        self._locks = locks
        self._lifelines: dict[int, socket.socket] = {}
        """By child, of those that live."""
        self._ended_children: list[tuple[socket.socket, Ended]] = []
        """Children that have ended, though processes that they started may not have."""
        self._wait_until = 0.0
        self._ended, self._signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ, self._fork)
        self._selector.register(self._ended, selectors.EVENT_READ, self._reap)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGUSR1, self._end_without_parent)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wakeup is enough
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process_tree.adopt_orphans()
        process_tree.die_with_parent(signal.SIGUSR1)
        self._end_without_parent()  # it may have ended already

    def fork_on_request(self) -> Callable[[], object]:
        """Return what a new child is to call, in that child."""
        while True:
            patience = max(0.0, self._wait_until - time.monotonic())
            for key, _ in self._selector.select(patience if self._ended_children else None):
                if (work := key.data()) is not None:
                    return work  # type: ignore[no-any-return]
            self._report_ends()

    def _fork(self) -> Callable[[], object] | None:
        _, descriptors, _, _ = socket.recv_fds(
            self._requests, 1, protocol.DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
        if not descriptors:
            self._end()
        task, channel, output, number = descriptors
        lifeline = socket.socket(fileno=number)
        try:
            if process_tree.is_readable(number, 0.0):  # hung up: nothing is ever sent here
                lifeline.close()
                return None
            try:
                pid = os.fork()
            except OSError as error:
                protocol.send(lifeline, Refused(str(error)))
                lifeline.close()
                return None
            if pid == 0:
                lifeline.close()
                return self._become_child(task, channel, output)
        finally:
            if os.getpid() == self._pid:
                for descriptor in (task, channel, output):
                    os.close(descriptor)
        self._lifelines[pid] = lifeline
        self._selector.register(lifeline, selectors.EVENT_READ, functools.partial(self._kill, pid))
        protocol.send(lifeline, Forked(pid))
        return None

    def _become_child(self, task: int, channel: int, output: int) -> Callable[[], object]:
        """Let go of all that is the zygote's."""
        signal.set_wakeup_fd(-1)
        for number in _WATCHED:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()  # the terminal's Ctrl-C is the parent's affair; and the group can be killed
        process_tree.die_with_parent()
        if os.getppid() != self._pid:  # it had ended already
            os._exit(1)
        process_tree.adopt_orphans()  # so that what outlives it is known to be its own
        self._selector.close()
        ended = (line for line, _ in self._ended_children)
        for stream in (self._requests, *self._lifelines.values(), *ended):
            stream.close()
        for descriptor in (self._ended, self._signalled, *self._locks):
            os.close(descriptor)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os.close(output)
        sys.modules["__main__"] = ModuleType("__main__")  # start.py is nobody's script
        opened = protocol.read_task(task)
        return functools.partial(_import(opened.entry), opened, Channel(channel))

    def _kill(self, pid: int) -> None:
        """Kill a child: the parent has hung up its lifeline."""
        self._selector.unregister(self._lifelines[pid])
        group = suppress(ProcessLookupError, PermissionError)  # it may not have made it yet
        with group:
            os.killpg(pid, signal.SIGSTOP)  # before any of them starts another one
        process_tree.kill_all([*process_tree.list_descendants(pid), pid])
        with group:
            os.killpg(pid, signal.SIGCONT)  # of those, resource trackers live

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._ended, 4096)
        with suppress(ChildProcessError):  # once none is left
            for pid, status in iter(functools.partial(os.waitpid, -1, os.WNOHANG), (0, 0)):
                if (lifeline := self._lifelines.pop(pid, None)) is None:
                    continue
                with suppress(KeyError):
                    self._selector.unregister(lifeline)
                self._ended_children.append((lifeline, Ended(os.waitstatus_to_exitcode(status))))
                self._wait_until = time.monotonic() + process_tree.PATIENCE_SECONDS

    def _report_ends(self) -> None:
        """Kill what ended children have left; report their ends when nothing is left, or won't die.

        What they left is the zygote's by now, and nobody else's: a child that lives adopts its own.
        """
        if not self._ended_children:
            return
        orphans = set(process_tree.list_children(self._pid)) - self._lifelines.keys()
        if orphans and time.monotonic() < self._wait_until:
            for orphan in orphans:
                process_tree.kill_all([orphan, *process_tree.list_descendants(orphan)])
            return  # the end of each is a signal
        for lifeline, ended in self._ended_children:
            protocol.send(lifeline, ended)
            lifeline.close()
        self._ended_children.clear()

    def _end_without_parent(self, *_: object) -> None:
        """End, if it was not only the thread that started this process that has ended."""
        if os.getppid() != self._parent:
            self._end()

    def _end(self, _: int = 0, __: FrameType | None = None) -> NoReturn:
        if os.getpid() != self._pid:  # a signal that was under way when this child was forked
            os._exit(1)
        process_tree.kill_descendants(self._pid)
        scratch.remove_folder(self._folder)
        os._exit(0)
