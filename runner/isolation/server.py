"""Parent side: the warm server, and the end of every trial turned into an outcome.

The standard library's forkserver is the server; this module adds what a measurement needs: a
deadline, a place for the child's output, and a reading of how the child ended. The parent sleeps in
one `wait` on the pipe and the child's sentinel; a second thread sleeps on the child's output.

A child that has sent its result takes a tenth of a small trial to leave memory. That is seen to
while the next one is started, which waits for it before it measures. (One that has children itself
is ended at once, with them.)
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from multiprocessing import connection, forkserver, spawn, util
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Any

from runner.allocations import Allocations
from runner.errors import ServerError
from runner.isolation import mallocs
from runner.machine import lifeline
from runner.metrics import readable_bytes
from runner.plan import TRACER_MB, Assignment
from runner.records import COMPLETED, Outcome, Status, Trial
from runner.trial import warm
from runner.trial.worker import CANNOT_SEND, main

_MOST_OUTPUT = 1_000_000
"""Bytes of one child's output that the log keeps; a flood is counted, not kept."""

_SERVER_LOST = "ended together with the server"

_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
"""How native code ends that asks for memory, gets none, and does not expect that."""

_NO_ROOM = re.compile(
    rb"std::bad_alloc|pthread_create\(\) failed|Cannot allocate memory|LLVM ERROR: out of memory"
)
"""What it may say then."""

_TELLS_SECONDS = 5.0
"""The longest that a server takes to tell how a child that was killed has ended."""

_LEAVES_SECONDS = 60.0
"""The longest that a child may take beyond that to leave memory, if the server is well."""

_UNTOLD = 255
"""What `Process.exitcode` reads when the server was gone before it could tell; or a child's own."""


class Server:
    """A warm server that runs trials, several at once where it is called from several threads; what
    it says goes to `log`, and what its children say goes there too where no other place is
    named."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._context = multiprocessing.get_context("forkserver")
        self._notes: dict[str, str] = {}
        self._is_cut = False

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start loading TensorFlow, and return at once; with `environment`, in a server that has
        been started with those variables as well, which from now on is the one in use."""
        environment = environment or {}
        _take_turns(frozenset(environment.items()))
        if _is_stopped(pid := _server_pid()):
            _kill(pid)  # stopped, it would take requests and never answer one
        _find_room_for_sockets()
        self._context.set_forkserver_preload(["runner.trial.warm"])
        with _said({**environment, warm.LOG_VARIABLE: _words.path}):
            forkserver.ensure_running()

    def stop(self) -> None:
        """End all servers; without this they end with the parent."""
        end_all()
        _words.keep(self.log)

    def cut(self) -> None:
        """End everything, while other threads wait for their trials: they hear of it at once, even
        where TensorFlow is still loading, and begin no more."""
        self._is_cut = True
        for server in list(_servers.values()):
            _kill(_pid_of(server))  # who waits for one to start a child holds the lock
        with _starting:
            self.stop()

    def run(
        self,
        assignment: Assignment,
        timeout_seconds: float,
        on_phase: Callable[[str], None] = lambda _: None,
        log: Path | None = None,
    ) -> Trial:
        """One trial in a child of its own. If the server is lost, before it or under it, a new one
        is started and it is tried again, once; and begun again, with its note, if the scenario
        asks to `StartAnew`. A crash under a limit on host memory is out of memory where it says
        so, or where the same trial goes on with a higher one."""
        log = log or self.log
        said = log.stat().st_size if log.exists() else 0
        trial = self._run_kept(assignment, timeout_seconds, on_phase, log)
        limit_mb = assignment.host_limit_mb
        if limit_mb is None or trial.outcome.reason not in [_ended_by(each) for each in _CRASHES]:
            return trial
        with log.open("rb") as file:
            file.seek(said)
            words = _NO_ROOM.search(file.read())
        if words:
            why = f"it said {words[0].decode()}"
        elif not assignment.more_host_mb:
            roomier = replace(assignment, more_host_mb=TRACER_MB)
            again = self.run(roomier, timeout_seconds, on_phase, log).outcome
            if again.status not in (Status.COMPLETED, Status.OUT_OF_MEMORY):
                return trial
            ends = again.status.replace("_", " ")
            why = f"with {readable_bytes(TRACER_MB * 2**20)} more it ended as {ends}"
        else:
            return trial
        under = f"under a cap of {readable_bytes(limit_mb * 2**20)}"
        reason = f"{trial.outcome.reason} {under}; {why}"
        return replace(
            trial, outcome=replace(trial.outcome, status=Status.OUT_OF_MEMORY, reason=reason)
        )

    def _run_kept(
        self,
        assignment: Assignment,
        timeout_seconds: float,
        on_phase: Callable[[str], None],
        log: Path,
    ) -> Trial:
        """Whatever becomes of the server."""
        device = assignment.experiment.device
        for last in (False, True):  # the other meters know glibc's malloc alone
            with _starting:
                if self._is_cut:
                    raise ServerError("the server was ended.", "Nothing more is to be measured.")
                self.start(mallocs.environment(device) if assignment.is_timed else None)
            try:
                trial = self._run_once(assignment, timeout_seconds, on_phase, log)
            except ServerError:
                if last or self._is_cut:
                    raise
                _kill(_server_pid())  # one that is only dying would be taken for alive
                continue
            if trial.outcome.reason != _SERVER_LOST or self._is_cut:
                break
        return trial

    def _run_once(
        self,
        assignment: Assignment,
        timeout_seconds: float,
        on_phase: Callable[[str], None],
        log: Path,
    ) -> Trial:
        cell = assignment.experiment.cell
        assignment = replace(assignment, note=self._notes.get(cell))
        ours, theirs = self._context.Pipe(duplex=False)
        output, their_output = self._context.Pipe(duplex=False)
        with tempfile.TemporaryDirectory(
            prefix=f"{warm.SCRATCH}{os.getpid()}-", ignore_cleanup_errors=True
        ) as scratch:
            process = self._context.Process(
                target=main,
                args=(assignment, tuple(_leaving), theirs, their_output, scratch),
            )
            try:
                with _starting:
                    if self._is_cut:
                        raise EOFError
                    _start(process)
                _words.keep(self.log)
            except (EOFError, OSError) as error:
                ours.close()
                output.close()
                _words.keep(self.log)
                raise ServerError(
                    f"the server that loads TensorFlow ended ({error or 'end of file'}).",
                    f"Its last words are in {self.log}.",
                ) from error
            except BaseException:
                _kill(_server_pid())  # it would go on, and start the child
                raise
            finally:
                theirs.close()
                their_output.close()
            reader = Thread(target=_keep_output, args=(output, log), daemon=True)
            reader.start()
            server_pid = _server_pid()
            result = None
            try:
                if self._is_cut:  # between the cut and its start
                    timeout_seconds = 0.0
                phase, result = _follow(ours, process, timeout_seconds, on_phase)
            finally:
                if isinstance(result, dict) and result.pop("is_alone") and _is_over(reader):
                    _see_off(process, server_pid)
                else:
                    _end(process, server_pid, sent=isinstance(result, dict))
                    reader.join(timeout=2)  # longer only where somebody else holds the pipe
                ours.close()
        if isinstance(result, dict) and "note" in result:
            self._notes[cell] = result["note"]
            return self._run_once(assignment, timeout_seconds, on_phase, log)
        exit_code = None if isinstance(result, dict) else process.exitcode
        if exit_code == _UNTOLD and _ends(server_pid):
            exit_code = None
        return _read(assignment, phase, result, exit_code, timeout_seconds)


def end_all() -> None:
    """The standard library has its own back then, which may be the user's."""
    for variables in list(_servers):
        _take_turns(variables)
        pid = _server_pid()
        if pid is not None:
            lifeline.end_descendants(pid)
            _kill(pid)
        _servers[variables]._stop()  # type: ignore[attr-defined]
    _put_in_place(_THEIRS)


class _DeadlinePassed:
    """In place of a result."""


def _follow(
    pipe: connection.Connection,
    process: ForkServerProcess,
    timeout_seconds: float,
    on_phase: Callable[[str], None],
) -> tuple[str | None, dict[str, Any] | _DeadlinePassed | None]:
    """Sleep until the child says something or ends; the last phase it named, and its result."""
    deadline = time.monotonic() + timeout_seconds
    phase, said = None, bytearray()
    while True:
        ready = connection.wait([pipe, process.sentinel], max(0.0, deadline - time.monotonic()))
        if not ready:
            return phase, _DeadlinePassed()
        if pipe not in ready:
            return phase, None
        data = os.read(pipe.fileno(), 1 << 20)  # what is there: a child may stop in mid-sentence
        if not data:
            left = max(0.0, deadline - time.monotonic())
            ended = connection.wait([process.sentinel], left)
            return phase, None if ended else _DeadlinePassed()
        said += data
        if b"\n" not in data:
            continue
        *messages, said = said.split(b"\n")
        for message in map(json.loads, messages):
            if "result" in message:
                return phase, message["result"]
            phase = message["phase"]
            on_phase(phase)


_START_SECONDS = 300.0
"""The longest that a server may take to load TensorFlow and start a child: a minute on a machine
that is very busy."""

_starting = RLock()
_living: set[int] = set()
"""The children that are at work, which are not what another one of them left behind."""


def _start(process: ForkServerProcess) -> None:
    """A server that never answers, as it was stopped, is killed; that raises here. Its caller holds
    `_starting`."""
    started = Event()
    Thread(target=_watch, args=(_server_pid(), started), daemon=True).start()
    try:
        with _without_the_main_module():
            process.start()
            # Else the next start looks whether this one has ended, and what its own thread is told
            # of that can be read only once.
            multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
            assert process.pid is not None
            _living.add(process.pid)
    finally:
        started.set()


def _watch(server_pid: int | None, started: Event) -> None:
    """Looks once a second, before the trial; nothing is measured yet."""
    deadline = time.monotonic() + _START_SECONDS
    while not started.wait(1.0):
        if _is_stopped(server_pid) or time.monotonic() > deadline:
            _kill(server_pid)
            return


_leaving: set[int] = set()
"""The children whose results are here, and that leave memory."""


def _is_over(output: Thread) -> bool:
    """A child that has sent its result closes its output; whoever else has it open goes on."""
    output.join(timeout=0.5)
    return not output.is_alive()


def _see_off(process: ForkServerProcess, server_pid: int | None) -> None:
    """End a child that has nothing more to say, and wait for nothing."""
    pid = process.pid
    assert pid is not None

    def end() -> None:
        try:
            _end(process, server_pid, sent=True)
        finally:
            _leaving.discard(pid)

    _leaving.add(pid)
    try:
        Thread(target=end, name=f"end of {pid}").start()
    except RuntimeError:  # as many threads as there may be
        end()


def _end(process: ForkServerProcess, server_pid: int | None, sent: bool) -> None:
    """End the child and all that it started, whatever state it is in and whatever its group.

    A child that sent its result is about to exit; it gets a moment.
    """
    assert process.pid is not None
    ended = bool(connection.wait([process.sentinel], 0.5 if sent else 0))
    # A child that has not made its own group yet is reached by kill alone.
    for end in (os.killpg,) if ended else (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(process.pid, signal.SIGKILL)
    process.join(_TELLS_SECONDS)
    if process.exitcode is None and not _is_stopped(server_pid):
        process.join(_LEAVES_SECONDS)
    if process.exitcode is None:  # the server alone knows how it ended
        _kill(server_pid)
        process.join()
    _living.discard(process.pid)
    # What it left is the server's to adopt, as nobody else there is.
    if server_pid is not None:
        with _starting:
            lifeline.end_descendants(server_pid, spared=_living)


def _read(
    assignment: Assignment,
    phase: str | None,
    result: dict[str, Any] | _DeadlinePassed | None,
    exit_code: int | None,
    timeout_seconds: float,
) -> Trial:
    """How the trial ended, from what the child said and how its process ended."""
    facts: dict[str, Any] = {}
    allocations = None
    if isinstance(result, dict):
        if found := result.get("allocations"):
            allocations = Allocations.from_json(found)
        if "status" not in result:
            whole = {**result, "allocations": allocations}
            return Trial(assignment.kind, assignment.index, COMPLETED, **whole)
        outcome = Outcome(Status(result["status"]), phase, result["reason"])
        facts = result["facts"]
    elif isinstance(result, _DeadlinePassed):
        reason = f"passed its deadline of {timeout_seconds:g} s (measure.timeout_seconds)"
        outcome = Outcome(Status.TIMED_OUT, phase, reason)
    else:
        outcome = _ended_without_result(exit_code, phase)
    return Trial(assignment.kind, assignment.index, outcome, facts=facts, allocations=allocations)


def _ended_without_result(exit_code: int | None, phase: str | None) -> Outcome:
    if exit_code == CANNOT_SEND:
        return Outcome(Status.FAILED, phase, "its result could not be sent (see the log)")
    if exit_code is None:
        return Outcome(Status.KILLED, phase, _SERVER_LOST)
    if exit_code < 0:
        return Outcome(Status.KILLED, phase, _ended_by(-exit_code))
    return Outcome(Status.FAILED, phase, f"the process ended by itself with exit code {exit_code}")


def _ended_by(number: int) -> str:
    try:
        return f"ended by {signal.Signals(number).name}"
    except ValueError:
        return f"ended by signal {number}"


def _keep_output(output: connection.Connection, log: Path) -> None:
    """Copy what the child prints into the log, up to a bound; a blocked read costs nothing."""
    kept = dropped = 0
    with output, log.open("ab") as file:
        while True:
            try:
                data = os.read(output.fileno(), 65536)
            except OSError:
                break
            if not data:
                break
            room = data[: _MOST_OUTPUT - kept]
            kept += len(room)
            dropped += len(data) - len(room)
            if room:
                file.write(room)
                file.flush()
        if dropped:
            file.write(f"\n[{dropped:,} more bytes of output were not kept]\n".encode())


def _ends(pid: int | None, seconds: float = 0.5) -> bool:
    """Whether that child of ours has ended or does so at once: its pipes close a moment before."""
    return pid is None or lifeline.ends(pid, seconds)


def _is_stopped(pid: int | None) -> bool:
    return pid is not None and lifeline.state(pid) == "T"


def _kill(pid: int | None) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _ends(pid, _TELLS_SECONDS)


class _Words:
    """What the servers say, which begin before it is known where a run's log will be: they write to
    a file without a name, and it is added to the log that is there by the time of asking."""

    def __init__(self) -> None:
        self._file = os.memfd_create("runner-servers")
        self._kept = 0
        self.path = f"/proc/{os.getpid()}/fd/{self._file}"

    def keep(self, log: Path) -> None:
        said = os.pread(self._file, _MOST_OUTPUT, self._kept)
        self._kept += len(said)
        if said:
            with log.open("ab") as file:
                file.write(said)


_words = _Words()

_Variables = frozenset[tuple[str, str]]

_THEIRS = forkserver._forkserver
"""The standard library's own: a program that measures something may use it for itself."""

_servers: dict[_Variables, forkserver.ForkServer] = {}
"""One for each environment that trials were asked to start in."""


def _take_turns(variables: _Variables) -> None:
    _put_in_place(_servers.setdefault(variables, forkserver.ForkServer()))


def _put_in_place(chosen: forkserver.ForkServer) -> None:
    """The standard library knows one server, under these names."""
    forkserver._forkserver = chosen
    forkserver.ensure_running = chosen.ensure_running
    forkserver.connect_to_new_process = chosen.connect_to_new_process
    forkserver.get_inherited_fds = chosen.get_inherited_fds
    forkserver.set_forkserver_preload = chosen.set_forkserver_preload


_LONGEST_PLACE = 70
"""What is left of the 107 characters that a socket's path may have, by a name in a folder in it."""


def _find_room_for_sockets() -> None:
    """The server listens in a folder for temporary files, and TMPDIR may name one too far down."""
    if len(tempfile.gettempdir()) <= _LONGEST_PLACE:
        return
    chosen, tempfile.tempdir = tempfile.tempdir, "/tmp"
    try:
        util.get_temp_dir()  # made once, for all sockets
    finally:
        tempfile.tempdir = chosen


@contextlib.contextmanager
def _without_the_main_module() -> Iterator[None]:
    """A child gets what it needs by import paths or by value. The standard library would have it
    run the user's script once more, which may measure something in its turn."""
    prepare = spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        data = prepare(name)
        return {key: value for key, value in data.items() if not key.startswith("init_main_")}

    spawn.get_preparation_data = prepared
    try:
        yield
    finally:
        spawn.get_preparation_data = prepare


@contextlib.contextmanager
def _said(variables: Mapping[str, str]) -> Iterator[None]:
    """For what is started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _server_pid() -> int | None:
    return _pid_of(forkserver._forkserver)


def _pid_of(server: forkserver.ForkServer) -> int | None:
    """The standard library keeps it to itself; needed to tell a lost server from a lost child."""
    pid: int | None = getattr(server, "_forkserver_pid", None)
    return pid
