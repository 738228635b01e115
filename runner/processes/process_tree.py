"""Processes that end with the one that started them, and with them all that they started in turn.

Core: standard library only. A process that leaves its group and its session (`setsid`) outlives
whoever started it, and is given to the nearest process above it that adopts orphans: so one that
does can find all that is left below it, whatever its group, and kill it.

    python -m runner.processes.process_tree PARENT COMMAND...

runs a command, of which nothing is left once the command, this process or PARENT has ended.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
GONE = ("Z", "X", None)

PATIENCE_SECONDS = 5.0
"""The longest that the end of killed processes is waited for: one in the midst of a read from a
network's disk may take its time."""

_prctl = ctypes.CDLL(None).prctl


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have this process sent a signal when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def list_children(pid: int) -> Iterator[int]:
    """Yield the children of a process, without those that have ended and were not waited for."""
    threads: list[str] = []
    with suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 (each trial does this)
    for thread in threads:
        with suppress(OSError):
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text()
            yield from (
                child for child in map(int, children.split()) if read_state(child) not in GONE
            )


def list_descendants(pid: int) -> Iterator[int]:
    """Yield every process below a process."""
    for child in list_children(pid):
        yield child
        yield from list_descendants(child)


def read_waited_seconds(pid: int) -> float:
    """Return how long a process was ready to run and had no processor: of its threads the longest.
    0 where the kernel does not say."""
    longest = 0
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                # Nanoseconds that it ran, nanoseconds that it waited, and how often it ran.
                longest = max(longest, int(file.read_text().split()[1]))
    return longest / 1e9


def read_state(pid: int) -> str | None:
    """Return how the kernel spells it: R, S, D, T (stopped), Z (ended, not waited for), or None."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def kill_all(pids: Iterable[int]) -> None:
    """Kill processes, where they are there and ours to kill; but no resource tracker, which ends by
    itself once those that it serves are gone, and until then removes what they shared."""
    for pid in pids:
        if not _is_resource_tracker(pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _is_resource_tracker(pid: int) -> bool:
    """Return whether it is the process, of `multiprocessing` or of joblib, that unlinks shared
    memory and semaphores when the last one that may use them has closed its pipe."""
    with suppress(OSError):
        return b"resource_tracker import main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def kill_descendants(pid: int) -> None:
    """Kill everything below a process, until there is nothing left: what is killed while it starts
    another one has that found in the next round."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (descendants := list(list_descendants(pid))) and time.monotonic() < deadline:
        kill_all(descendants)
        time.sleep(0.002)


def wait_for_ends(pids: Iterable[int]) -> None:
    """Wait until none of these processes holds memory any more, or a device; for 5 s at most."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for pid in pids:
        with suppress(OSError):  # it has gone
            process = os.pidfd_open(pid)
            is_readable(process, max(0.0, deadline - time.monotonic()))
            os.close(process)


def is_readable(descriptor: int, seconds: float) -> bool:
    """Return True as soon as there is something to read, or the other end is closed."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def main() -> None:
    """Run the command of the command line, and end with the code that it ends with."""
    parent, *command = sys.argv[1:]

    def end(*_: object) -> None:
        kill_descendants(os.getpid())
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    die_with_parent(signal.SIGTERM)
    adopt_orphans()
    if os.getppid() != int(parent):  # it had gone already
        return
    process = subprocess.Popen(command, preexec_fn=die_with_parent)
    code = process.wait()
    kill_descendants(os.getpid())
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
