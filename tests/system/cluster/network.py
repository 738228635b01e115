"""Network namespaces of a test's own, and who listens where.

A namespace has a loopback device and no other: what listens in it is reached from nowhere else,
whatever address it chose.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_ADDRESS = "192.0.2.1/32"
"""Which the standards keep for examples."""
_LISTENS = "0A"
"""As the kernel's table spells the state."""


def why_not() -> str | None:
    """Why there can be no namespace here."""
    if shutil.which("ip") is None:
        return "ip is missing: apt install iproute2"
    return "a network namespace needs root" if os.geteuid() != 0 else None


class Namespace:
    def __init__(self, name: str) -> None:
        self.name = name

    def inside(self, *words: str) -> list[str]:
        """The command that runs this one in here."""
        return ["ip", "netns", "exec", self.name, *words]

    def processes(self) -> list[psutil.Process]:
        done = subprocess.run(
            ["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True
        )
        found = []
        for pid in map(int, done.stdout.split()):
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return found

    def end_all(self) -> None:
        """Also what such a process has just started."""
        while left := self.processes():
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)


@contextmanager
def namespace() -> Iterator[Namespace]:
    """One that goes with all that runs in it."""
    made = Namespace(f"runner-{secrets.token_hex(4)}")
    subprocess.run(["ip", "netns", "add", made.name], check=True)
    try:
        subprocess.run(made.inside("ip", "link", "set", "lo", "up"), check=True)
        # Slurm resolves no name where there is no address but that of loopback.
        subprocess.run(made.inside("ip", "address", "add", _ADDRESS, "dev", "lo"), check=True)
        yield made
        made.end_all()
    finally:
        with suppress(subprocess.CalledProcessError):
            made.end_all()
        subprocess.run(["ip", "netns", "delete", made.name], check=True)


def exposed(pids: Iterable[int]) -> list[str]:
    """The listeners among these processes that can be reached from another machine: in this
    process's own network, on an address beyond loopback."""
    ours = Path("/proc/self/ns/net").readlink()
    found = []
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/ns/net").readlink() == ours:
                found += [f"{pid} {each}" for each in listening(pid) if not each.is_loopback]
    return found


def listening(pid: int) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses on which a process listens for TCP."""
    sockets = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(file.readlink()))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in sockets:
                found.append(_address(fields[1].partition(":")[0]))
    return found


def _address(spelled: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """From words of four bytes each, as the kernel has them in memory."""
    words = [bytes.fromhex(spelled[i : i + 8])[::-1] for i in range(0, len(spelled), 8)]
    address = ipaddress.ip_address(b"".join(words))
    return getattr(address, "ipv4_mapped", None) or address
