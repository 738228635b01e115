"""Who listens where another machine reaches it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def exposed(pids: Iterable[int]) -> list[str]:
    """The listeners among these processes that can be reached from another machine: in this
    process's own network, on an address beyond loopback."""
    ours = Path("/proc/self/ns/net").readlink()
    found = []
    for pid in pids:
        with suppress(OSError, psutil.Error):
            if Path(f"/proc/{pid}/ns/net").readlink() != ours:
                continue
            for socket in psutil.Process(pid).net_connections("tcp"):
                address = ipaddress.ip_address(socket.laddr.ip)
                address = getattr(address, "ipv4_mapped", None) or address
                if socket.status == psutil.CONN_LISTEN and not address.is_loopback:
                    found.append(f"{pid} {address}")
    return found
