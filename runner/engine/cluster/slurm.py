"""Workers as the jobs of an array in Slurm, sent by submitit.

Whether a job has ended is asked of the queue (`squeue`), which always knows. submitit itself asks
the accounting (`sacct`), and where there is none it waits for ever.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.engine.cluster.cell_queue import CellQueue
from runner.engine.cluster.worker import CommandContext, take_cells
from runner.engine.signals import defer_signals
from runner.errors import ServerError, Unavailable

_QUEUE_SECONDS = 10.0
"""The longest that a job's end goes unnoticed; the queue is asked once for all of them."""
_ANSWER_SECONDS = 60.0
_SQUEUE = ("squeue", "--me", "--noheader", "--array", "--format=%i")
_COMMON = ("timeout_min", "mem_gb", "cpus_per_task", "gpus_per_node")
"""Fields with one name on every kind of cluster in submitit; the others are `slurm_...`."""
_ALWAYS = {"no-requeue": True}
"""A job that Slurm ends is replaced like any other that is lost; Slurm shall not begin it again."""


@dataclass
class SlurmCluster:
    """Starts jobs, and knows from the queue which of them have ended."""

    options: Mapping[str, Any]
    _jobs: dict[str, Any] = field(default_factory=dict)
    """submitit's, by their ids in Slurm."""
    _ended: set[str] = field(default_factory=set)
    _asked_at: float = 0.0

    def __post_init__(self) -> None:
        try:
            import submitit  # noqa: F401
        except ImportError:
            raise Unavailable(
                "hydra/launcher=submitit_slurm needs submitit, which is not installed here.",
                "Install it: pip install 'tf-memory-runner[slurm]'.",
            ) from None
        missing = [each for each in ("sbatch", "squeue", "srun") if shutil.which(each) is None]
        if missing:
            raise Unavailable(
                f"hydra/launcher=submitit_slurm: there is no {missing[0]} on this machine.",
                "Start the command where jobs are sent to Slurm from.",
            )

    def start(self, queue: CellQueue, count: int) -> Sequence[str]:
        """Send an array of so many jobs, and return their ids."""
        import submitit

        executor = submitit.AutoExecutor(queue.find_worker_folder("%j"), cluster="slurm")
        asked = {"timeout_min": None, **self.options}  # None: the partition's
        asked["additional_parameters"] = {**_ALWAYS, **asked.get("additional_parameters", {})}
        context = CommandContext.read()
        try:
            executor.update_parameters(
                **{name if name in _COMMON else f"slurm_{name}": asked[name] for name in asked},
                name="runner",
                stderr_to_stdout=True,
                slurm_array_parallelism=count,
            )
            with defer_signals():  # else nobody would know of a job that has just been sent
                jobs = executor.map_array(
                    take_cells_in_job, [queue.folder] * count, [context] * count
                )
                self._jobs |= {job.job_id: job for job in jobs}
        except Exception as error:  # whatever sbatch, or submitit, has against it
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ServerError(
                f"Slurm did not take the workers: {lines[-1]}",
                "Look at the fields of hydra.launcher.",
            ) from error
        self._asked_at = time.monotonic()
        return [job.job_id for job in jobs]

    def find_ended(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the jobs that the queue does not know any more; while it does not answer, none."""
        if time.monotonic() > self._asked_at + _QUEUE_SECONDS:
            left = _ask_queue()
            self._asked_at = time.monotonic()
            self._ended |= set() if left is None else self._jobs.keys() - left
        return {name: f"job {name} is gone" for name in names if name in self._ended}

    def find_log(self, queue: CellQueue, name: str) -> Path:
        """Return the job's own log, which has the reason why it was ended."""
        paths = self._jobs[name].paths
        log: Path = paths.stderr if paths.stderr.exists() else paths.stdout
        return log

    def end(self, name: str) -> None:
        _cancel(name)

    def close(self, names: Sequence[str]) -> None:
        """Cancel the jobs that have not begun; the others see that nothing is left."""
        if names:
            _cancel("--state=PENDING", *names)

    def abandon(self) -> str | None:
        """Return how many jobs go on, and what stops them."""
        left = _ask_queue()
        ours = self._jobs.keys() - self._ended if left is None else self._jobs.keys() & left
        if not ours:
            return None
        whole = sorted({job.partition("_")[0] for job in ours}, key=int)
        workers = "1 worker goes" if len(ours) == 1 else f"{len(ours)} workers go"
        return (
            f"{workers} on in Slurm until no cell is left, and what they measure is kept. They are "
            f"seen with `squeue --job={','.join(whole)}`, and stopped with "
            f"`scancel {' '.join(whole)}`."
        )


def take_cells_in_job(queue_folder: Path, context: CommandContext) -> None:
    """Take cells, in a job: its id in Slurm is the worker's name."""
    from submitit import JobEnvironment

    take_cells(queue_folder, JobEnvironment().job_id, context)


def _ask_queue() -> set[str] | None:
    """Return the jobs of this user that have not ended; None while nobody answers."""
    try:
        done = subprocess.run(
            _SQUEUE, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return set(done.stdout.split())


def _cancel(*words: str) -> None:
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["scancel", *words], capture_output=True, timeout=_ANSWER_SECONDS)
