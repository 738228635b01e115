"""Processes that end with the one that started them, and with them all that they started in turn.

Core: standard library only. A process that leaves its group and its session (`setsid`) outlives
whoever started it, and is given to the nearest process above it that adopts orphans: so one that
does can find all that is left below it, whatever its group, and end it.

    python -m runner.machine.lifeline PARENT COMMAND...

runs a command, of which nothing is left once the command, this process or PARENT has ended.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_PATIENCE_SECONDS = 5.0
"""The longest that the end of killed processes is waited for: one in the midst of a read from a
network's disk may take its time."""


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def children(pid: int) -> Iterator[int]:
    """Those that have ended and were not waited for yet are left out."""
    threads: list[str] = []
    with suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 (each trial does this)
    for thread in threads:
        with suppress(OSError):
            found = Path(f"/proc/{pid}/task/{thread}/children").read_text()
            yield from (child for child in map(int, found.split()) if _lives(child))


def _lives(pid: int) -> bool:
    return state(pid) not in ("Z", "X", None)


def state(pid: int) -> str | None:
    """As the kernel spells it: R, S, D, T (stopped), Z (ended, not waited for); None: gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def end_descendants(pid: int, spared: Collection[int] = ()) -> None:
    """Kill everything below a process but those children of it, until there is nothing left: what
    is killed while it starts another one has that found in the next round."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        found = [
            each
            for child in children(pid)
            if child not in spared
            for each in (child, *descendants(child))
        ]
        if not found or time.monotonic() > deadline:
            return
        for each in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.002)


def wait_for_ends(pids: Iterable[int]) -> None:
    """Until none of these processes holds memory any more, or a device; for 5 s at most."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for pid in pids:
        with suppress(OSError):
            ends(pid, max(0.0, deadline - time.monotonic()))


def ends(pid: int, seconds: float) -> bool:
    """Whether a process has ended, or does within that time."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], seconds)[0])
    finally:
        os.close(process)


def end_family_with_parent(folder: Path, scratch: str) -> None:
    """Of this process: when its parent ends, so does all that is below it, and what `scratch`
    matches in `folder` is removed."""
    own = os.getpid()

    def end(*_: object) -> None:
        if os.getpid() == own:  # not in a copy of it
            end_descendants(own)
            for left in folder.glob(scratch):
                shutil.rmtree(left, ignore_errors=True)
            os._exit(128 + signal.SIGTERM)

    adopt_orphans()
    signal.signal(signal.SIGTERM, end)
    atexit.register(end)
    die_with_parent(signal.SIGTERM)


def end_after(pid: int) -> None:
    """Of this process: it is killed when that one ends, whichever of its threads started it. A
    thread sleeps until then."""
    try:
        watched = os.pidfd_open(pid)
    except OSError:
        return

    def wait() -> None:
        select.select([watched], [], [])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def main() -> None:
    parent, *command = sys.argv[1:]

    def end(*_: object) -> None:
        end_descendants(os.getpid())
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    die_with_parent(signal.SIGTERM)
    adopt_orphans()
    if os.getppid() != int(parent):  # it had gone already
        return
    process = subprocess.Popen(command, preexec_fn=die_with_parent)
    code = process.wait()
    end_descendants(os.getpid())
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
