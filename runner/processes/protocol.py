"""The messages between the parent, a zygote and a child.

| from, to         | over                          | what                                         |
| ---------------- | ----------------------------- | -------------------------------------------- |
| parent -> zygote | its requests, a socket        | one child, please: four descriptors          |
| zygote -> parent | the child's lifeline, a socket| `Forked` or `Refused`; at last `Ended`       |
| parent -> zygote | the same, hung up             | end this child, and all that it started      |
| child -> parent  | its channel, a pipe           | lines of JSON, each a `ChildMessage`         |
| child -> parent  | its output, a pipe            | what it prints                               |
| parent -> child  | the signal `DEADLINE`         | send what you have, now                      |

The fourth descriptor of a request is a file in memory with the child's `Task`, which nobody opens
but the child. Whatever is lost, its sockets and pipes close, and whoever waits at one hears of it.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from runner import schema
from runner.processes.descriptors import move_out_of_reach
from runner.records import ChildMessage

CANNOT_SEND = 86
"""Exit code of a child whose trial ended but whose result could not be sent."""

DEADLINE = signal.SIGRTMIN + 8
"""The signal to a child that is still at work at its deadline. It ends one that does not answer."""

DESCRIPTORS = 4
"""The number of descriptors in a request: task, channel, output, lifeline, in this order."""

_LONGEST_REPORT = 4096
_LONGEST_LINE = 2**30


@dataclass(frozen=True)
class Task:
    """The work of a child, and the surroundings in which it does it."""

    entry: str
    """The function that it calls with this task and its channel: `package.module:function`."""
    work: bytes
    """Pickled; may need the modules of the path below."""
    scratch: str
    """A folder for its temporary files."""
    former: tuple[int, ...]
    """Processes that have done their work, and may still hold memory."""
    folder: str
    path: tuple[str, ...]
    arguments: tuple[str, ...]
    """The folder where the parent stands, its `sys.path` and its `sys.argv`."""


def write_task(task: Task) -> int:
    """Return the descriptor of a new file in memory that holds the task."""
    descriptor = os.memfd_create("runner-task")
    with open(descriptor, "wb", closefd=False) as file:
        pickle.dump(task, file, pickle.HIGHEST_PROTOCOL)
    return descriptor


def read_task(descriptor: int) -> Task:
    """Return the task, and close its file."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        task: Task = pickle.load(file)
    return task


class Forked(msgspec.Struct, frozen=True, tag=True):
    """The child is there."""

    pid: int


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The kernel starts no process."""

    reason: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The child is gone, with all that it started."""

    exit_code: int
    """Below zero the number of the signal that killed the child."""


Report = Forked | Refused | Ended


def send(lifeline: socket.socket, report: Report) -> None:
    """Report to the parent, if it still listens."""
    with suppress(OSError):
        lifeline.send(msgspec.json.encode(report))


def receive(lifeline: socket.socket) -> Report | None:
    """Wait for what the zygote reports; return None if it is gone."""
    with suppress(OSError):
        if data := lifeline.recv(_LONGEST_REPORT):
            report: Report = msgspec.json.decode(data, type=Report)
            return report
    return None


class Channel:
    """The child's end of its channel.

    It is used after code that may have replaced or closed anything: so what it calls was looked up
    before, and its descriptor is none that a program meets by chance.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = move_out_of_reach(descriptor)
        self._write, self._getpid = os.write, os.getpid
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def send(self, message: ChildMessage) -> None:
        """Write a message, whole; nothing in a process that the user's code has forked."""
        if self._getpid() != self._owner:
            return
        data = memoryview(schema.encode(message) + b"\n")
        with self._lock:  # another thread may send the result at the deadline
            while data:
                data = data[self._write(self._descriptor, data) :]


class LineReader:
    """The parent's end of a channel: takes what is there, and never waits for the rest of a
    line."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> Iterator[ChildMessage]:
        """Yield the messages that are whole; raise `schema.Unreadable` at what is none."""
        self._unread += data
        if b"\n" not in data:
            if len(self._unread) > _LONGEST_LINE:
                raise schema.Unreadable("a line without an end")
            return
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            message = schema.decode(ChildMessage, bytes(line))
            if message == ChildMessage():
                raise schema.Unreadable("neither a phase nor a result")
            yield message
