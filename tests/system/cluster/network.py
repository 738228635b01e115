"""Network namespaces of a test's own.

A namespace has a loopback device and no other: what listens in it is reached from nowhere else,
whatever address it chose.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from runner.processes.process_tree import die_with_parent

_ADDRESS = "192.0.2.1/32"  # which the standards keep for examples
LINK = "joined"  # the device of a namespace that leads to those joined with it


def why_not() -> str | None:
    """Why there can be no namespace here."""
    if shutil.which("ip") is None:
        return "ip is missing: apt install iproute2"
    return "a network namespace needs root" if os.geteuid() != 0 else None


class Namespace:
    def __init__(self, name: str) -> None:
        self.name, self._started = name, list[subprocess.Popen[bytes]]()

    def inside(self, *words: str) -> list[str]:
        """The command that runs this one in here."""
        return ["ip", "netns", "exec", self.name, *words]

    def start(self, log: Path, environment: Mapping[str, str], *words: str) -> None:
        """Start what ends with the namespace, and adds to the log."""
        with log.open("ab") as file:
            started = subprocess.Popen(
                self.inside(*words),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                preexec_fn=die_with_parent,
            )
        self._started.append(started)

    def processes(self) -> list[psutil.Process]:
        done = subprocess.run(
            ["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True
        )
        pids = set(map(int, done.stdout.split()))
        return [process for process in psutil.process_iter(["cmdline"]) if process.pid in pids]

    def end_all(self) -> None:
        """Also what such a process has just started."""
        while left := self.processes():
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
        while self._started:
            self._started.pop().wait()


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
    finally:
        made.end_all()
        subprocess.run(["ip", "netns", "delete", made.name], check=True)


def join(namespaces: Sequence[Namespace]) -> list[str]:
    """Connect namespaces by a network of their own; return the address of each."""
    first, *others = namespaces
    addresses = [f"198.51.100.{number}" for number in range(1, len(namespaces) + 1)]
    commands = [
        f"-n {first.name} link add {LINK} type bridge",
        f"-n {first.name} address add {addresses[0]}/24 dev {LINK}",
        f"-n {first.name} link set {LINK} up",
    ]
    for number, namespace in enumerate(others, start=1):
        commands += [
            f"-n {first.name} link add v{number} type veth peer name {LINK} netns {namespace.name}",
            f"-n {first.name} link set v{number} master {LINK} up",
            f"-n {namespace.name} address add {addresses[number]}/24 dev {LINK}",
            f"-n {namespace.name} link set {LINK} up",
        ]
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)
    return addresses
