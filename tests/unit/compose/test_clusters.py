"""Workers of a cluster: what the words say of them, checked before anything is started."""

from __future__ import annotations

import re

import pytest

from runner.cell import ClusterSpec
from runner.compose import composition
from runner.errors import BadInput

SWEEP = ("-m", "scenario=tape", "seed=1,2", "tracking=none")


def cluster(*words: str) -> ClusterSpec | None:
    return composition.compose_plan([*SWEEP, *words]).cluster


def test_without_a_launcher_cells_run_here() -> None:
    assert cluster() is None
    assert cluster("hydra/launcher=basic") is None


def test_two_workers_are_started_unless_said() -> None:
    assert cluster("hydra/launcher=submitit_slurm") == ClusterSpec(
        "submitit_slurm", 2, {"cpus_per_task": 1}
    )
    found = cluster("hydra/launcher=ray", "hydra.launcher.workers=8")
    assert found
    assert (found.kind, found.workers) == ("ray", 8)


def test_what_is_said_of_slurm_is_what_submitit_takes() -> None:
    words = ("partition=gpu", "mem_gb=8", "timeout_min=90", "gpus_per_node=1", "constraint=a100")
    more = ("setup=['module load cuda']", "additional_parameters={reservation: ours}")
    said = [f"hydra.launcher.{word}" for word in (*words, *more)]
    found = cluster("hydra/launcher=submitit_slurm", *said)
    assert found
    assert found.options == {
        "partition": "gpu",
        "mem_gb": 8,
        "timeout_min": 90,
        "gpus_per_node": 1,
        "constraint": "a100",
        "cpus_per_task": 1,
        "setup": ["module load cuda"],
        "additional_parameters": {"reservation": "ours"},
    }


@pytest.mark.parametrize("plus", ["", "+"])
def test_what_is_said_of_ray_is_what_ray_takes(plus: str) -> None:
    found = cluster(
        "hydra/launcher=ray",
        "hydra.launcher.ray.init.address='10.0.0.1:6379'",
        f"{plus}hydra.launcher.ray.remote.num_gpus=0.5",
    )
    assert found
    assert found.options == {
        "init": {"address": "10.0.0.1:6379", "log_to_driver": False, "logging_level": 40},
        "remote": {"num_cpus": 1, "num_gpus": 0.5, "scheduling_strategy": "SPREAD"},
    }


REFUSED = {
    ("hydra/launcher=joblib",): "measure.side_by_side says how many",
    ("hydra/launcher=submitit_local",): "There is: basic, ray, submitit_slurm",
    ("hydra/launcher=ray", "hydra.launcher.workers=0"): "workers: 0 is out of range",
    ("hydra/launcher=ray", "hydra.launcher.worker=3"): "did you mean 'workers'",
    ("hydra/launcher=ray", "+hydra.launcher.ray.remote.gpus=1"): "did you mean 'num_gpus'",
    ("hydra/launcher=ray", "hydra.launcher.ray.remote.num_cpus=few"): "not a finite number",
    ("hydra/launcher=submitit_slurm", "hydra.launcher.mem_gb=lots"): "not a finite number",
    ("hydra/launcher=submitit_slurm", "hydra.launcher.setup=module"): "is not a list",
    ("hydra/launcher=submitit_slurm", "hydra.launcher.workers=1,2"): "one for all its cells",
    (
        "hydra/launcher=submitit_slurm",
        "hydra.launcher.array_parallelism=9",
    ): "hydra.launcher.workers says how many",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_no_worker_can_be_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match=re.escape(REFUSED[words])):
        cluster(*words)


def test_a_search_runs_here() -> None:
    words = ("hydra/sweeper=optuna", "search.objectives=[tensor_peak_bytes]", "hydra/launcher=ray")
    with pytest.raises(BadInput, match="a search runs its cells here"):
        cluster(*words)


@pytest.mark.parametrize("word", ["hydra/launcher=ray", "hydra/sweeper=optuna"])
def test_one_run_says_that_it_is_no_sweep(word: str) -> None:
    plan = composition.compose_plan(["scenario=tape", word])
    assert plan.cluster is None
    assert [note for note in plan.notes if note.startswith(f"{word} is not used")]
