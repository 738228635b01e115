"""Workers of a cluster, `hydra/launcher=submitit_slurm` or `ray`: what the words say of them.

Nothing is started here. The defaults are in `conf/hydra/launcher/`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from msgspec import Meta
from omegaconf import DictConfig, OmegaConf

from runner.cell import ClusterSpec
from runner.config import Count, NonNegative, build_checked
from runner.errors import BadInput

Bytes = Annotated[int, Meta(ge=1, le=10**15)]
Amount = Annotated[float, Meta(ge=1e-3, le=1e9)]
Share = Annotated[float, Meta(ge=0, le=1e6)]


@dataclass(frozen=True)
class _Slurm:
    workers: Count
    timeout_min: Count | None
    cpus_per_task: Count | None
    mem_gb: Amount | None
    gpus_per_node: Count | None
    partition: str | None
    account: str | None
    qos: str | None
    constraint: str | None
    exclude: str | None
    gres: str | None
    comment: str | None
    setup: list[str] | None
    additional_parameters: dict[str, Any] | None


@dataclass(frozen=True)
class _Ray:
    workers: Count
    ray: dict[str, Any]


@dataclass(frozen=True)
class _RayInit:
    address: str | None
    namespace: str | None
    object_store_memory: Bytes | None
    log_to_driver: bool
    logging_level: NonNegative
    runtime_env: dict[str, Any] | None


@dataclass(frozen=True)
class _RayRemote:
    num_cpus: Share | None
    num_gpus: Share | None
    memory: Bytes | None
    resources: dict[str, Any] | None
    accelerator_type: str | None
    scheduling_strategy: str | None


def read_cluster(sweep: DictConfig) -> ClusterSpec | None:
    """Return the workers that the words ask for, every field checked; None where cells run here."""
    kind = str(sweep.hydra.runtime.choices.get("hydra/launcher"))
    if kind == "basic":
        return None
    values: Any = OmegaConf.to_container(sweep.hydra.launcher, resolve=True)
    if kind == "submitit_slurm":
        options = _read_options(_Slurm, values, "hydra.launcher")
        return ClusterSpec("submitit_slurm", options.pop("workers"), options)
    if kind == "ray":
        fields = build_checked(_Ray, values, "hydra.launcher")
        parts = {"init": _RayInit, "remote": _RayRemote}
        for name in fields.ray:
            if name not in parts:
                raise BadInput(
                    f"hydra.launcher.ray.{name}: there is no such field.",
                    "There is: init, for ray.init, and remote, for ray.remote.",
                )
        options = {
            name: _read_options(part, fields.ray.get(name) or {}, f"hydra.launcher.ray.{name}")
            for name, part in parts.items()
        }
        return ClusterSpec("ray", fields.workers, options)
    raise BadInput(
        f"hydra/launcher={kind}: the runner starts workers in Slurm or in Ray, and no other jobs.",
        "Say hydra/launcher=submitit_slurm or hydra/launcher=ray, or leave it out.",
    )


def _read_options(part: Any, values: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the fields that have a value: the others are the cluster's to choose."""
    fields = asdict(build_checked(part, values, where))
    return {name: value for name, value in fields.items() if value is not None}
