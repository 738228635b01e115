"""Workers of Dask, `hydra/launcher=dask` or `slurm`: what the words say of them.

Nothing is started here. The defaults are in `conf/hydra/launcher/`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from runner.cell import ClusterSpec
from runner.config import Count, build_checked
from runner.errors import BadInput

Kind = Literal["local", "slurm", "pbs", "lsf", "sge", "htcondor", "oar", "ssh"]


@dataclass(frozen=True)
class _Dask:
    workers: Count
    address: str | None
    cluster: Kind | None


@dataclass(frozen=True)
class _Common:
    """The fields of clusters that the files list; a cluster's others are checked by itself."""

    queue: str | None
    account: str | None
    walltime: str | None
    cores: Count | None
    memory: str | None
    interface: str | None
    hosts: list[str] | None
    job_extra_directives: list[str] | None
    job_script_prologue: list[str] | None


def read_cluster(sweep: DictConfig) -> ClusterSpec | None:
    """Return the workers that the words ask for, every field checked; None where cells run here."""
    launcher = str(sweep.hydra.runtime.choices.get("hydra/launcher"))
    if launcher == "basic":
        return None
    if missing := [name for name in ("distributed", "dask_jobqueue") if find_spec(name) is None]:
        raise BadInput(
            f"hydra/launcher={launcher} needs {missing[0]}, which is not installed here.",
            "Install it: pip install 'tf-memory-runner[cluster]'.",
        )
    values: Any = OmegaConf.to_container(sweep.hydra.launcher, resolve=True)
    own = _take(_Dask, values)
    common = asdict(_take(_Common, values))
    options = {name: value for name, value in (common | values).items() if value is not None}
    if own.address is None:
        if own.cluster == "ssh" and "hosts" not in options:
            raise BadInput(
                "hydra.launcher.hosts: cluster=ssh needs the hosts to start workers on.",
                "Say 'hydra.launcher.hosts=[HOST,HOST]'; a host may stand there twice.",
            )
        workers = len(options["hosts"]) if own.cluster == "ssh" else own.workers
        return ClusterSpec(launcher, workers, None, own.cluster or "local", options)
    beside = [name for name in ("cluster", *options) if own.cluster or name in options]
    if beside:
        raise BadInput(
            f"hydra.launcher.{beside[0]}: the scheduler at hydra.launcher.address has its workers.",
            "Leave one of them out: with an address no cluster is started.",
        )
    return ClusterSpec(launcher, own.workers, own.address)


def explain_cluster(cluster: ClusterSpec | None) -> tuple[str, ...]:
    """Return a sentence for what the user should know of the cluster before it is used."""
    if cluster is None or cluster.address is None or cluster.address.startswith("tls://"):
        return ()
    return (
        f"hydra.launcher.address={cluster.address} is not encrypted: who can read or reach that "
        "network can read the cells and run code as the workers. Use tls:// on one that is shared.",
    )


def _take(part: Any, values: dict[str, Any]) -> Any:
    """Return the fields of this part, checked, and take them out of the values."""
    names = part.__dataclass_fields__
    return build_checked(part, {name: values.pop(name) for name in names}, "hydra.launcher")
