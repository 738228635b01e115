"""A Ray of one's own: a head and a second node, one core each, in a network namespace.

`ray start` listens beyond loopback, and `ray stop` ends every Ray of the machine: so what it starts
is ended with its namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.processes.process_tree import die_with_parent
from tests.system.cluster.network import Namespace

HEAD = "127.0.0.1:6399"
START_SECONDS = 120.0
"""For a machine that is busy; 10 s on one that is not."""

_ASK = """
import ray
ray.init(address="{head}", log_to_driver=False, logging_level=50)
print(sum(node["Alive"] for node in ray.nodes()))
"""


@contextmanager
def running(network: Namespace) -> Iterator[dict[str, str]]:
    """A cluster that takes tasks; yields the environment that finds it."""
    # Short: the sockets in it have names of at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as made:
        environment = {
            **os.environ,
            "RAY_ADDRESS": HEAD,
            "RAY_USAGE_STATS_ENABLED": "0",
            "HOME": made,  # where a Ray of its own leaves a token, which the next one wants
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        }
        host, _, port = HEAD.partition(":")
        own = ("--block", f"--node-ip-address={host}", "--num-cpus=1")
        room = ("--object-store-memory=80000000", "--disable-usage-stats")
        head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={made}")
        starts = [("head", (*head, *own, *room)), ("node", (f"--address={HEAD}", *own, *room))]
        started = []
        try:
            for number, (name, words) in enumerate(starts, start=1):
                with (Path(made) / f"{name}.txt").open("wb") as log:
                    process = subprocess.Popen(
                        network.inside("ray", "start", *words),
                        env={name: environment[name] for name in {*environment} - {"RAY_ADDRESS"}},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        preexec_fn=lambda: die_with_parent(signal.SIGTERM),
                    )
                started.append(process)
                _wait(network, environment, Path(made), number)
            yield environment
        finally:
            network.end_all()
            for process in started:
                process.wait()


def _wait(network: Namespace, environment: dict[str, str], folder: Path, nodes: int) -> None:
    ask = network.inside(sys.executable, "-c", _ASK.format(head=HEAD))
    deadline = time.monotonic() + START_SECONDS
    while True:
        done = subprocess.run(ask, env=environment, capture_output=True, text=True)
        if done.stdout.strip().endswith(str(nodes)):
            return
        if time.monotonic() > deadline:
            logs = "\n".join(path.read_text()[-2000:] for path in folder.glob("*.txt"))
            raise AssertionError(f"Ray is not up: {done.stderr[-2000:]}\n{logs}")
        time.sleep(0.5)
