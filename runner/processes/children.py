"""The parent's hold on a zygote and on its children; nothing here knows what a child is for."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from runner.processes import process_tree, protocol, scratch, start
from runner.processes.protocol import Ended, Forked, LineReader, Refused, Task
from runner.records import Phase, RepeatedCalls, Status, TrialResult
from runner.schema import Unreadable

MOST_OUTPUT = 1_000_000
"""Bytes of one child's output that the log keeps; a flood is counted, not kept."""

_START_SECONDS = 300.0
"""The longest that a zygote may take to load TensorFlow and fork: a minute on a machine that is
very busy."""

_MOST_DEADLINES = 3
"""The longest that a child may take on a busy machine, or that goes forward, as a multiple of its
deadline."""

_NEWS_SHARE = 0.5
"""A child goes forward if it was heard of within this share of its deadline."""

_ANSWER_SECONDS = 20.0
"""The longest that a child may take to send what it has: a million events are read in ten."""

_REPORT_SECONDS = 5.0
"""The longest that a zygote that is well takes to report how a killed child has ended."""

_LEAVING_SECONDS = 60.0
"""The longest that a child may take beyond that to leave memory."""


@dataclass(frozen=True)
class DeadlinePassed:
    """The child was still at work when its time was over."""

    seconds: float
    result: TrialResult | None = None
    """As much as it had by then."""


@dataclass(frozen=True)
class ZygoteLost:
    """The child ended with its zygote, which alone knew how."""


OnNews = Callable[[Phase | RepeatedCalls], None]
"""Receives what a child says before its result."""

End = TrialResult | Ended | DeadlinePassed | Unreadable | ZygoteLost
"""Unreadable: the child sent something that is no message."""


class ForkError(Exception):
    """The zygote has not forked; without a reason it is gone."""


class Zygote:
    """A process that loads what `preload` names, and forks.

    `environment` is on top of this process's; what it prints while it loads goes to `output`.
    """

    def __init__(self, preload: str, environment: Mapping[str, str], output: int) -> None:
        self._folder, lock = scratch.make_folder()
        self._numbers = count(1)
        self._is_over = False
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = {
            "path": list(map(str, sys.path)),
            "requests": theirs.fileno(),
            "locks": [lock],
            "parent": os.getpid(),
            "preload": preload,
            "folder": str(self._folder),
        }
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *flags, start.__file__, json.dumps(arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
                pass_fds=[theirs.fileno(), lock],
                start_new_session=True,  # a terminal's signals are this process's affair
            )
        finally:
            theirs.close()
            os.close(lock)

    def is_well(self) -> bool:
        """Return False if it has ended, or is stopped: it would take requests and answer none."""
        if self._is_over or self._process.poll() is not None:
            return False
        return process_tree.read_state(self._process.pid) != "T"

    @contextmanager
    def make_scratch(self) -> Iterator[Path]:
        """Make a folder for a child's temporary files, and remove it in the end."""
        folder = self._folder / str(next(self._numbers))
        try:
            folder.mkdir()
        except FileNotFoundError:  # the zygote has ended, or somebody has removed it
            raise ForkError from None
        try:
            yield folder
        finally:
            scratch.remove_folder(folder)

    def fork(self, task: Task, log: Path) -> Child:
        """Return the child that does the task, with its output in the log; raise `ForkError`."""
        with ExitStack() as theirs:
            lifeline, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            theirs.callback(far_end.close)
            written = protocol.write_task(task)
            (channel, far_channel), (output, far_output) = os.pipe(), os.pipe()
            sent = [written, far_channel, far_output]
            for descriptor in sent:
                theirs.callback(os.close, descriptor)
            child = Child(self, lifeline, channel, Output(output, log))
            with suppress(OSError):  # it is gone, and so is the far end
                socket.send_fds(self._requests, [b"."], [*sent, far_end.fileno()])
        try:
            child.pid = self._wait_for_fork(lifeline)
        except BaseException as error:
            child.close()
            if not isinstance(error, Exception):  # it would go on, and fork
                self.end()
            raise
        return child

    def _wait_for_fork(self, lifeline: socket.socket) -> int:
        deadline = time.monotonic() + _START_SECONDS
        while not process_tree.is_readable(lifeline.fileno(), 1.0):
            if not self.is_well() or time.monotonic() > deadline:
                raise ForkError
        match protocol.receive(lifeline):
            case Forked(pid):
                return pid
            case Refused(reason):
                raise ForkError(reason)
            case _:
                raise ForkError

    def end(self) -> None:
        """Kill it and everything below it."""
        self._is_over = True  # on a busy machine it may leave memory later than is waited for
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)  # or it forks while its children are found
            process_tree.kill_descendants(self._process.pid)
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_REPORT_SECONDS)
        self._requests.close()
        scratch.remove_folder(self._folder)


class Output:
    """The output of a child, on its way to a log, up to a bound."""

    def __init__(self, descriptor: int, log: Path) -> None:
        self._pipe = open(descriptor, "rb", buffering=0)  # noqa: SIM115
        try:
            self._log = log.open("ab", buffering=0)
        except OSError:  # its folder has gone: the trial goes on all the same
            self._log = Path(os.devnull).open("ab", buffering=0)  # noqa: SIM115
        self._kept = self._dropped = 0

    def fileno(self) -> int:
        return self._pipe.fileno()

    def copy(self) -> bool:
        """Copy what is there; return False at its end."""
        data = self._pipe.read(65536)
        if not data:
            return False
        room = data[: MOST_OUTPUT - self._kept]
        self._kept += len(room)
        self._dropped += len(data) - len(room)
        with suppress(OSError):  # the disk is full
            self._log.write(room)
        return True

    def drain(self, seconds: float) -> bool:
        """Copy what comes within that time; return True if it came to its end."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0.0:  # somebody may write for ever
            if not process_tree.is_readable(self.fileno(), left):
                return False
            if not self.copy():
                return True
        return False

    def close(self) -> None:
        """Close both ends; note in the log how much was dropped."""
        if self._dropped:
            note = f"\n[{self._dropped:,} more bytes of output were not kept]\n"
            self._dropped = 0
            with suppress(OSError):
                self._log.write(note.encode())
        self._pipe.close()
        self._log.close()


class Child:
    """A child at work, or on its way out of memory."""

    def __init__(
        self, zygote: Zygote, lifeline: socket.socket, channel: int, output: Output
    ) -> None:
        self.pid = 0
        self._zygote = zygote
        self._lifeline = lifeline
        self._channel = open(channel, "rb", buffering=0)  # noqa: SIM115
        self._output = output
        self._has_ended = False
        self._leaves_until = 0.0

    def follow(self, seconds: float, on_news: OnNews) -> tuple[Phase | None, End]:
        """Sleep until it has finished or ended, or its time is over; return its last phase. Time in
        which it waited for a processor does not count, and one that goes forward has more, up to a
        multiple of its time. At its deadline it is asked for what it has."""
        started, phase, reader = time.monotonic(), None, LineReader()
        deadline, heard, is_asked = started + seconds, started, False
        with selectors.DefaultSelector() as selector:
            for stream in (self._channel, self._output, self._lifeline):
                selector.register(stream, selectors.EVENT_READ)
            while True:
                left = max(0.0, deadline - time.monotonic())
                ready = [key.fileobj for key, _ in selector.select(left)]
                if self._output in ready and not self._output.copy():
                    selector.unregister(self._output)
                if self._channel in ready:  # a child may stop in the middle of a line
                    data = self._channel.read(1 << 20)
                    if not data:
                        selector.unregister(self._channel)
                    try:
                        for message in reader.feed(data):  # those before an unreadable one count
                            if message.result is not None:
                                is_late = message.result.status is Status.TIMED_OUT
                                late = DeadlinePassed(seconds, message.result)
                                return phase, late if is_late else message.result
                            heard = time.monotonic()
                            if message.phase is not None and message.phase != phase:
                                phase = message.phase
                                on_news(phase)
                            if message.calls is not None:
                                on_news(message.calls)
                    except Unreadable as error:
                        return phase, error
                elif self._lifeline in ready:
                    end = self._receive_end()
                    return phase, DeadlinePassed(seconds) if is_asked else end
                elif time.monotonic() >= deadline and is_asked:
                    return phase, DeadlinePassed(seconds)
                elif time.monotonic() >= deadline:
                    waited = process_tree.read_waited_seconds(self.pid)
                    wanted = max(started + seconds + waited, heard + _NEWS_SHARE * seconds)
                    deadline = min(wanted, started + _MOST_DEADLINES * seconds)
                    if time.monotonic() >= deadline:
                        is_asked = self._ask_for_result()
                        deadline = time.monotonic() + _ANSWER_SECONDS * is_asked
                        if not is_asked:
                            return phase, DeadlinePassed(seconds)

    def _ask_for_result(self) -> bool:
        """Ask it for what it has; return False if it is stopped, or gone."""
        if process_tree.read_state(self.pid) in ("T", *process_tree.GONE):
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, protocol.DEADLINE)
        return True

    def _receive_end(self) -> Ended | ZygoteLost:
        ended = protocol.receive(self._lifeline)
        self._has_ended = True
        if isinstance(ended, Ended):
            return ended
        process_tree.kill_all([*process_tree.list_descendants(self.pid), self.pid])
        process_tree.wait_for_ends([self.pid])
        return ZygoteLost()

    def start_leaving(self) -> bool:
        """Let it leave memory while something else goes on; return False if somebody still has its
        output open."""
        if not self._output.drain(0.5):
            return False
        self._hang_up()
        self._output.close()
        self._leaves_until = time.monotonic() + _LEAVING_SECONDS
        return True

    def has_left(self) -> bool:
        """Return True if it has left memory, or is waited for no longer."""
        is_late = time.monotonic() > self._leaves_until
        return is_late or process_tree.is_readable(self._lifeline.fileno(), 0.0)

    def end(self) -> None:
        """Kill it and all that it started; wait until that is gone, whatever state it is in."""
        self._hang_up()
        for seconds in (_REPORT_SECONDS, _LEAVING_SECONDS):
            if self._has_ended:
                break
            if process_tree.is_readable(self._lifeline.fileno(), seconds):
                self._receive_end()
            elif not self._zygote.is_well() or seconds == _LEAVING_SECONDS:
                self._zygote.end()
        self._output.drain(2.0)  # longer only where somebody else holds the pipe
        self.close()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close what is open of it here."""
        for stream in (self._lifeline, self._channel, self._output):
            stream.close()
