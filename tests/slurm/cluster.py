"""A Slurm of one's own: Debian's packages, two nodes on this machine, nothing beyond loopback.

It needs root, and the packages slurmctld, slurmd, slurm-client and munge; no systemd.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
_MUNGE = Path("/run/munge")
_NODES = ("n1", "n2")

_CONF = """
ClusterName=runner
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthInfo=socket={munge}/munge.socket.2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
EnforcePartLimits=ALL
ReturnToService=2
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmdParameters=config_overrides
MpiDefault=none
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why there can be no cluster here."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        return f"needs {', '.join(missing)}: Debian's slurmctld slurmd slurm-client munge"
    return "needs root" if os.geteuid() != 0 else None


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster that takes jobs; yields the environment that finds it."""
    (folder / "state").mkdir(parents=True)
    conf = folder / "slurm.conf"
    conf.write_text(_conf(folder))
    environment = {**os.environ, "SLURM_CONF": str(conf), "PATH": _path()}
    processes = []
    try:
        _MUNGE.mkdir(exist_ok=True)
        shutil.chown(_MUNGE, "munge", "munge")
        processes.append(_start(["runuser", "-u", "munge", "--", "munged", "-F", "-f"], folder))
        _wait_for((_MUNGE / "munge.socket.2").exists, "munge")
        processes.append(_start(["slurmctld", "-D"], folder, environment))
        for node in _NODES:
            processes.append(_start(["slurmd", "-D", "-N", node], folder, environment))
        _wait_for(lambda: _idle(environment) == len(_NODES), "the nodes")
        yield environment
    finally:
        subprocess.run(["scancel", "--user=root"], env=environment, capture_output=True)
        for process in reversed(processes):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _conf(folder: Path) -> str:
    host = socket.gethostname().partition(".")[0]
    controller, *ports = _free_ports(1 + len(_NODES))
    nodes = "\n".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN"
        for node, port in zip(_NODES, ports, strict=True)
    )
    return _CONF.format(
        host=host, controller=controller, folder=folder, munge=_MUNGE, nodes=nodes
    )


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _start(
    command: Sequence[str], folder: Path, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(
            command,
            env=environment or {**os.environ, "PATH": _path()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _path() -> str:
    """Debian puts daemons where a user's shell does not look."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _idle(environment: dict[str, str]) -> int:
    command = ["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return len(done.stdout.split())


def _wait_for(is_there: object, what: str) -> None:
    assert callable(is_there)
    deadline = time.monotonic() + 60
    while not is_there():
        assert time.monotonic() < deadline, f"{what}: not up in a minute"
        time.sleep(0.2)
