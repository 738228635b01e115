"""A Slurm of one's own: Debian's packages, two nodes on this machine, no accounting.

It needs root, and the packages slurmctld, slurmd, slurm-client and munge; neither systemd nor
cgroups, nor a host name that resolves, nor anything that the packages set up: keys, sockets and
state lie in a folder that goes with the cluster. Its daemons can't be told to listen on loopback
alone, so that they, their jobs and who sends them have a network namespace of their own.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runner.processes.process_tree import die_with_parent
from tests.system.cluster.network import Namespace

Inside = Callable[..., list[str]]
"""Of a command's words, those that run it in the namespace."""

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
START_SECONDS = 30.0

_CONF = """
ClusterName=runner
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=6817
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
EnforcePartLimits=ALL
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=6821 CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port=6822 CPUs=1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why there can be no cluster here."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        return f"{missing[0]} is missing: apt install slurmctld slurmd slurm-client munge"
    return "Slurm's daemons need root" if os.geteuid() != 0 else None


@contextmanager
def running(network: Namespace) -> Iterator[dict[str, str]]:
    """A cluster that takes jobs; yields the environment that finds it. Nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="runner-slurm-") as made:
        folder = Path(made)
        conf = folder / "slurm.conf"
        conf.write_text(_conf(folder))
        # Slurm looks for cgroups even where no plugin asks for them; in their first version it does
        # not mind that there are none.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (folder / "state").mkdir()
        environment = {**os.environ, "SLURM_CONF": str(conf), "PATH": _path()}
        daemons: list[subprocess.Popen[bytes]] = []
        try:
            for daemon in _started(folder, network.inside, environment):
                daemons.append(daemon)
            yield environment
        finally:
            network.end_all()
            for daemon in daemons:
                daemon.wait()


def _started(
    folder: Path, inside: Inside, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """One daemon after another, each when the one before it is up."""
    key, munge = folder / "munge.key", folder / "munge.socket"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    files = {"key-file": key, "socket": munge, "pid-file": folder / "munge.pid",
             "log-file": folder / "munge.log", "seed-file": folder / "munge.seed"}  # fmt: skip
    yield _start(folder, environment, *inside("munged", "--foreground", "--force",
           *(f"--{name}={path}" for name, path in files.items())))  # fmt: skip
    _wait(munge.exists, folder, "munge")
    yield _start(folder, environment, *inside("slurmctld", "-D"))
    for node in ("n1", "n2"):
        yield _start(folder, environment, *inside("slurmd", "-D", "-N", node))
    _wait(lambda: _are_idle(inside, environment), folder, "Slurm")


def _start(folder: Path, environment: Mapping[str, str], *command: str) -> subprocess.Popen[bytes]:
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def _wait(is_up: Callable[[], bool], folder: Path, what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_up():
        if time.monotonic() > deadline:
            logs = [f"{path.name}:\n{path.read_text()[-2000:]}" for path in folder.glob("*.log")]
            raise AssertionError("\n".join([f"{what} is not up in {START_SECONDS:g} s", *logs]))
        time.sleep(0.1)


def _are_idle(inside: Inside, environment: Mapping[str, str]) -> bool:
    command = inside("sinfo", "--noheader", "--states=idle", "--format=%D")
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.stdout.strip() == "2"


def _conf(folder: Path) -> str:
    return _CONF.format(host=socket.gethostname().partition(".")[0], folder=folder)


def _path() -> str:
    """Debian puts daemons where a user's shell does not look."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
