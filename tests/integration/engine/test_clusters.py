"""The jobs of clusters that are not there to be asked: each kind takes our fields and its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cell import ClusterSpec
from runner.engine.cluster.clusters import connect

QUEUED = {"queue": "short", "walltime": "01:00:00"}


@pytest.mark.filterwarnings("ignore:OAR Job memory")
@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("slurm", QUEUED, ["#SBATCH -p short", "#SBATCH -t 01:00:00"]),
        ("pbs", QUEUED, ["#PBS -q short", "walltime=01:00:00"]),
        ("lsf", QUEUED, ["#BSUB -q short", "#BSUB -W 01:00"]),
        ("sge", QUEUED, ["#$ -q short", "#$ -l h_rt=01:00:00"]),
        ("oar", QUEUED, ["#OAR -q short", "walltime=01:00:00"]),
        ("htcondor", {"disk": "2GB"}, ["MY.DaskWorkerDisk = 2000000000"]),
    ],
)
def test_a_job_has_one_quiet_worker_behind_tls(
    kind: str,
    fields: dict[str, str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNNER_OUTPUTS", str(tmp_path))
    connection = connect(ClusterSpec("dask", 2, None, kind, fields))
    script = connection.cluster.job_script()
    connection.close()
    quiet = ["WORKER__PROFILE__ENABLED=", "ADMIN__TICK__INTERVAL=", "MEMORY__MONITOR_INTERVAL="]
    worker = ["--nthreads 1", "--protocol tls://", "--tls-cert ", "--death-timeout 60"]
    for word in (*words, *quiet, *worker):
        assert word in script, script
    assert list(tmp_path.iterdir()) == [], "no credential is left"
