"""Launchers of Hydra's that distribute, made patient: every job is waited for until it has ended.

They collect what their jobs return one after the other, and the first that was lost raises there,
while the others go on unwatched. Here it is a value like the others. And submitit asks Slurm's
accounting (`sacct`) what became of a job that left no result: where there is none, it waits for
ever. The queue (`squeue`) always knows: what is not in it any more has ended.

Their defaults are in `conf/hydra/launcher/`, under the launchers' own names, so that the words that
they are known by bring them. What a file there does not say, and the types, come from the launcher.
"""

from __future__ import annotations

import logging
import os
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

from runner.places import relative

# Hydra 1.3 fills a file up from the launcher of its name, and says each time that 1.4 won't.
warnings.filterwarnings(
    "ignore", r"\s*'hydra/launcher/\w+' is validated against ConfigStore schema"
)

SLURM = "submitit_slurm"
RAY = "ray"
HERE = ("joblib", "submitit_local")
"""Those whose jobs are processes of this machine, children of ours."""

_QUEUE_SECONDS = 10
"""The longest that a job's end goes unnoticed; squeue is asked once for all of them."""
_GRACE_SECONDS = 5
"""How long a file of a job that has ended may take to be seen over a network's disk."""


def problem_of(end: object) -> str | None:
    """What went wrong, of what a patient launcher returned of a job."""
    if isinstance(end, JobReturn):
        end = end._return_value if end.status is JobStatus.FAILED else None
    if not isinstance(end, BaseException):
        return None
    said = (str(end).strip().splitlines() or [""])[0]
    return (said if isinstance(end, _Lost) else f"{type(end).__name__}: {said}")[:300]


class _Lost(Exception):
    """A job that ended and left nothing to its launcher."""


@contextmanager
def patient(launcher: Launcher) -> Iterator[None]:
    """Meanwhile it returns what went wrong with a job in the place of what the job returns."""
    module = type(launcher).__module__
    if ".hydra_submitit_launcher." in module:
        with _patient_submitit():
            yield
    elif ".hydra_ray_launcher." in module:
        with _patient_ray():
            yield
    else:
        yield


@contextmanager
def _patient_submitit() -> Iterator[None]:
    from submitit import Job, SlurmJob

    results, watcher, seconds = Job.results, SlurmJob.watcher, Job._results_timeout_s

    def awaited(job: Any) -> list[Any]:
        try:
            got: list[Any] = results(job)
        except Exception as error:
            if job.paths.result_pickle.exists():
                return [error]
            return [_Lost(f"job {job.job_id} is gone; if it said why, then in {log(job)}")]
        return got

    def log(job: Any) -> str:
        paths = job.paths
        return relative(paths.stderr if paths.stderr.exists() else paths.stdout)

    Job.results, SlurmJob.watcher, Job._results_timeout_s = awaited, _queue(), _GRACE_SECONDS
    try:
        yield
    finally:
        Job.results, SlurmJob.watcher, Job._results_timeout_s = results, watcher, seconds


@cache
def _queue() -> Any:
    """Watches Slurm's queue for submitit. It outlives a sweep that was interrupted, and knows which
    jobs are ours then."""
    from submitit.core.core import InfoWatcher

    class Queue(InfoWatcher):  # type: ignore[misc]
        def _make_command(self) -> list[str] | None:
            return list(_SQUEUE) if self._registered - self._finished else None

        def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
            text = string if isinstance(string, str) else string.decode()
            listed = set(text.split())
            return {
                job: {"State": "RUNNING" if job in listed else "GONE"} for job in self._registered
            }

        def get_state(self, job_id: str, mode: str = "standard") -> str:
            return str(self.get_info(job_id, mode).get("State", "UNKNOWN"))

    logging.getLogger("submitit").setLevel(logging.ERROR)  # it warns of an answer that it lacks
    return Queue(_QUEUE_SECONDS)


_SQUEUE = ("squeue", "--me", "--noheader", "--array", "--format=%i")


def _what_goes_on_in_slurm() -> str | None:
    ours = _queue()._registered
    try:
        done = subprocess.run(_SQUEUE, capture_output=True, text=True, timeout=20, check=True)
        left = ours & set(done.stdout.split())
    except (OSError, subprocess.SubprocessError):
        left = ours
    if not left:
        return None
    whole = sorted({job.partition("_")[0] for job in left}, key=int)
    return (
        f"{len(left)} jobs go on in Slurm, and keep what they measure. They are seen with "
        f"`squeue --job={','.join(whole)}`, and stopped with `scancel {' '.join(whole)}`."
    )


@contextmanager
def _patient_ray() -> Iterator[None]:
    """And without a word to its makers: Ray tells them of every cluster that it starts. Ray ends
    with the sweep, as it would with the process, and with it the jobs that go on."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from hydra_plugins.hydra_ray_launcher import _core

    def awaited(reference: Any) -> Any:
        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            return error

    _core.ray = SimpleNamespace(get=awaited)
    try:
        yield
    finally:
        _core.ray = ray
        ray.shutdown()


def what_goes_on(launcher: str) -> str | None:
    """After an interruption: what the jobs do now, and how to stop them. None where they are
    processes of this machine, which have ended with us."""
    if launcher in HERE:
        return None
    if launcher == RAY:
        return "Ray ends the jobs of a command with it: none goes on."
    if launcher == SLURM:
        return _what_goes_on_in_slurm()
    return f"What {launcher} has handed out may go on; stop it with the means of its own."
