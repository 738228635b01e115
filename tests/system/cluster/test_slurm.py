"""Real Slurm: what is lost is measured again, what is refused is said, and no job is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Security

from runner import records
from tests.resuming import only
from tests.system.cluster import network, slurm
from tests.system.cluster.conftest import (
    CELLS,
    GRID,
    Cluster,
    finish,
    need,
    read_table,
    wait_until,
)

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need(network.why_not() or slurm.why_not())
    with network.namespace() as own, slurm.running(own) as environment:
        yield Cluster(("hydra/launcher=slurm",), own.inside, environment, [own])


def call(cluster: Cluster, *command: str) -> list[str]:
    words, environment = cluster.inside(*command), dict(cluster.environment)
    return subprocess.check_output(words, env=environment, text=True).split()


def list_jobs(cluster: Cluster) -> list[str]:
    return call(cluster, "squeue", "--noheader", "--format=%i")


def test_what_a_sweep_on_slurm_gives_is_what_it_gives_here(
    cluster: Cluster, outputs: Path, home: Path, swept_here: Path
) -> None:
    said = finish(cluster.start(outputs, home, *GRID), 1)
    assert " under slurm: not in rounds" in said
    assert read_table(outputs) == read_table(swept_here)
    assert not list_jobs(cluster)
    assert not list(outputs.glob(".workers-*/.tls*")), "credentials are left"
    here, there = [records.read(only(folder) / "0") for folder in (swept_here, outputs)]
    assert there.environment.comparable == here.environment.comparable, "so that times compare"


def test_a_cancelled_job_is_replaced_and_its_cell_measured(
    cluster: Cluster, outputs: Path, home: Path, swept_here: Path
) -> None:
    one = (*GRID, "hydra.launcher.workers=1")
    process = cluster.start_and_wait(outputs, home, CELLS // 3, *one)
    (job,) = list_jobs(cluster)
    call(cluster, "scancel", job)
    wait_until(lambda: list_jobs(cluster) not in ([], [job]), "no job is sent")
    finish(process, 1)
    assert read_table(outputs) == read_table(swept_here)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_stopped_command_leaves_no_job(
    number: signal.Signals, code: int, cluster: Cluster, outputs: Path, home: Path
) -> None:
    process = cluster.start_and_wait(outputs, home, CELLS // 3, *GRID)
    process.send_signal(number)
    finish(process, code)
    wait_until(lambda: not (list_jobs(cluster) or cluster.list_servers()), "a job is left", 60)


STRANGER = """
import socket, ssl, sys
context = ssl._create_unverified_context()
for certificate in sys.argv[3:]:
    context.load_cert_chain(certificate)
with context.wrap_socket(socket.create_connection((sys.argv[1], sys.argv[2]))) as scheduler:
    scheduler.recv(1)
"""


def test_who_lacks_the_credentials_is_refused(cluster: Cluster, outputs: Path, home: Path) -> None:
    other, file = Security.temporary(), outputs.with_name("other.pem")
    file.write_text(other.tls_client_key + other.tls_client_cert)
    process = cluster.start(outputs, home, *GRID)
    line = next(line for line in process.stderr or () if line.startswith("Dask's scheduler"))
    address = line.partition("tls://")[2].partition(";")[0].split(":")
    for own, why in (((), "CERTIFICATE_REQUIRED"), ((str(file),), "UNKNOWN_CA")):
        words = cluster.inside(sys.executable, "-c", STRANGER, *address, *own)
        assert why in subprocess.run(words, capture_output=True, text=True).stderr
    finish(process, 1)


ECHO = "hydra.launcher.job_script_prologue=['echo no such module; exit 1']"
REFUSED = {
    "hydra.launcher.queue=nowhere": (1, "no worker was started: sbatch: error: Batch job"),
    ECHO: (1, "it said last: no such module"),
    "+hydra.launcher.partition=gpu": (2, "unexpected keyword argument 'partition'"),
    "hydra.launcher.memory=much": (2, "Could not interpret 'much'"),
}


@pytest.mark.parametrize("word", REFUSED)
def test_what_slurm_does_not_take_is_told_in_its_own_words(
    word: str, cluster: Cluster, outputs: Path, home: Path
) -> None:
    code, words = REFUSED[word]
    assert words in finish(cluster.start(outputs, home, *GRID, word), code)
    assert not list_jobs(cluster)
    assert list(outputs.glob("*")) == [] or code == 1, "something is written"
