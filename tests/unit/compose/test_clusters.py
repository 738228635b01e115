"""Workers of a cluster: what the words say of them, checked before anything is started."""

from __future__ import annotations

import re

import pytest

from runner.cell import ClusterSpec
from runner.compose import composition
from runner.errors import BadInput

SWEEP = ("-m", "scenario=tape", "seed=1,2", "tracking=none")
DASK, SLURM = "hydra/launcher=dask", "hydra/launcher=slurm"
AT = "hydra.launcher.address"


def cluster(*words: str) -> ClusterSpec | None:
    return composition.compose_plan([*SWEEP, *words]).cluster


def test_without_a_launcher_cells_run_here() -> None:
    assert cluster() is None
    assert cluster("hydra/launcher=basic") is None


def test_two_workers_of_this_machine_are_started_unless_said() -> None:
    assert cluster(DASK) == ClusterSpec("dask", 2, None, "local", {})
    assert cluster(SLURM, "hydra.launcher.workers=8") == ClusterSpec("slurm", 8, None, "slurm", {})


def test_slurm_is_short_for_a_kind_of_dask() -> None:
    words = ("queue=gpu", "memory=8GB", "walltime='01:30:00'", "account=us")
    said = [f"hydra.launcher.{word}" for word in words]
    more = ("+hydra.launcher.job_mem=9GB", "hydra.launcher.job_extra_directives=['--gres=gpu:1']")
    short = cluster(SLURM, *said, *more)
    assert short is not None
    assert short.options == {
        "queue": "gpu",
        "memory": "8GB",
        "walltime": "01:30:00",
        "account": "us",
        "job_mem": "9GB",
        "job_extra_directives": ["--gres=gpu:1"],
    }
    long = cluster(DASK, "hydra.launcher.cluster=slurm", *said, *more)
    assert long is not None
    assert (long.cluster, long.options) == (short.cluster, short.options)


@pytest.mark.parametrize(("address", "notes"), [("tls://a:1", 0), ("tcp://a:1", 1), ("a:1", 1)])
def test_an_address_without_encryption_is_used_with_a_sentence(address: str, notes: int) -> None:
    plan = composition.compose_plan([*SWEEP, DASK, f"{AT}='{address}'"])
    assert plan.cluster is not None
    assert plan.cluster.address == address
    assert sum("is not encrypted" in note for note in plan.notes) == notes == len(plan.notes)


REFUSED = {
    ("hydra/launcher=joblib",): "measure.side_by_side says how many",
    ("hydra/launcher=submitit_local",): "There is: basic, dask, slurm",
    ("hydra/launcher=submitit_slurm",): "Say hydra/launcher=slurm",
    ("hydra/launcher=ray",): "Say hydra/launcher=dask",
    (DASK, "hydra.launcher.workers=0"): "workers: 0 is out of range",
    (DASK, "hydra.launcher.worker=3"): "did you mean 'workers'",
    (DASK, "hydra.launcher.cluster=slrum"): "slurm",
    (DASK, "hydra.launcher.cluster=ssh"): "needs the hosts",
    (DASK, f"{AT}='tls://a:1'", "hydra.launcher.cluster=pbs"): "Leave one of them out",
    (DASK, f"{AT}='tls://a:1'", "hydra.launcher.queue=gpu"): "Leave one of them out",
    (SLURM, "hydra.launcher.cores=few"): "cores",
    (SLURM, "hydra.launcher.job_script_prologue=module"): "is not a list",
    (SLURM, "hydra.launcher.workers=1,2"): "one for all its cells",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_no_worker_can_be_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match=re.escape(REFUSED[words])):
        cluster(*words)


def test_a_search_runs_here() -> None:
    words = ("hydra/sweeper=optuna", "search.objectives=[tensor_peak_bytes]", DASK)
    with pytest.raises(BadInput, match="a search runs its cells here"):
        cluster(*words)


@pytest.mark.parametrize("word", [DASK, "hydra/sweeper=optuna"])
def test_one_run_says_that_it_is_no_sweep(word: str) -> None:
    plan = composition.compose_plan(["scenario=tape", word])
    assert plan.cluster is None
    assert [note for note in plan.notes if note.startswith(f"{word} is not used")]
