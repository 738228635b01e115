"""A Slurm of one's own: Debian's packages, two nodes on this machine, no accounting.

It needs root, and neither systemd nor cgroups: keys, sockets and state lie in a folder that goes
with it. Its daemons can't be told to listen on loopback alone, so they have a namespace.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.cluster.conftest import wait_until
from tests.system.cluster.network import Namespace

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # where Debian puts daemons
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
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
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=6821 CPUs=1 RealMemory=16000 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port=6822 CPUs=1 RealMemory=16000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why there can be no cluster here."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"{missing[0]} is missing: apt install slurmctld slurmd slurm-client munge"
    return "Slurm's daemons need root" if os.geteuid() != 0 else None


@contextmanager
def running(network: Namespace) -> Iterator[dict[str, str]]:
    """A cluster that takes jobs; yields the environment that finds it. Nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="runner-slurm-") as made:
        folder = Path(made)
        host = socket.gethostname().partition(".")[0]
        (folder / "slurm.conf").write_text(_CONF.format(host=host, folder=folder))
        # Slurm looks for cgroups even where no plugin asks for them; in their first version it does
        # not mind that there are none.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "munge.key").chmod(0o600)
        environment = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf", "PATH": _PATH}
        files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        munge = [*files, f"--socket={folder}/munge.socket"]

        def start(*command: str) -> None:
            network.start(folder / "daemons.log", environment, *command)

        def count_idle() -> str:
            command = network.inside("sinfo", "--noheader", "--states=idle", "--format=%D")
            return subprocess.run(command, env=environment, capture_output=True, text=True).stdout

        try:
            start("munged", "--foreground", "--force", *munge)
            wait_until((folder / "munge.socket").exists, "munge is not up", 60)
            start("slurmctld", "-D")
            for node in ("n1", "n2"):
                start("slurmd", "-D", "-N", node)
            wait_until(lambda: count_idle().strip() == "2", "Slurm is not up", 60)
            yield environment
        finally:
            network.end_all()
