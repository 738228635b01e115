"""Memory trials side by side: what may run beside what, and how many at once.

A memory trial counts the bytes that its own process asks for, and who else is at work does not
change them. So it gives up being alone where nothing can come of it:

- Never beside a timing trial, which wants the machine for itself.
- Not where TensorFlow's concurrency moves the peak, as the scenario declares (`varies`) or as the
  cell's trials have shown: on a busy machine the range would be another one.
- Not on a card, whose memory is one for all.
- Only while the machine's free memory, without swap, holds what each of them may take: its own
  limit, or else twice what the largest trial before has taken.

A trial that found its end in company, by a signal, its deadline or want of memory, is run again
alone, and that is what counts. Each waits in a thread of its own; all else is done in the caller's.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from runner.config import Device
from runner.isolation.server import Server
from runner.judging import repeats
from runner.plan import Assignment
from runner.records import Status, Trial
from runner.running import folders
from runner.running.lifecycle import Run
from runner.scenario import varies

_LEAST_BYTES = 2**30
"""What a trial is taken to need before any has been seen: TensorFlow, the tracer, small tensors."""

_MOST = 32
"""More at once gain nothing: one server forks them all."""


def may_have(run: Run) -> bool:
    """Whether a run's next trial may run beside others."""
    assignment, experiment = run.next, run.experiment
    return (
        assignment is not None
        and assignment.kind == "memory"
        and not _on_card(experiment.device)
        and varies(experiment.scenario, experiment.execution) is None
        and not repeats.differ(run.memory_trials)
    )


def _on_card(device: Device) -> bool:
    """Or likely so: only TensorFlow knows, in a child."""
    return device.kind == "gpu" or (device.kind == "auto" and _cards())


@cache
def _cards() -> bool:
    return any(next(Path("/dev").glob(name), None) for name in ("nvidia[0-9]*", "kfd"))


@dataclass(frozen=True)
class Ended:
    run: Run
    trial: Trial
    seconds: float
    """Its share of the time that all took."""


@dataclass
class Company:
    """Of one plan: remembers how much its trials take."""

    server: Server
    at_once: int | None
    """As the user says; None: as many as there are cores."""
    free_bytes: Callable[[], int] = field(default_factory=lambda: free_bytes)
    _most_seen: int = 0

    @property
    def size(self) -> int:
        return min(self.at_once or len(os.sched_getaffinity(0)), _MOST)

    def trials(
        self, runs: Sequence[Run], begins: Callable[[Run, Assignment], None]
    ) -> Generator[Ended, None, None]:
        """The next trial of each; to be closed, which ends those that are at work."""
        waiting, at_work = deque(runs), dict[Future[tuple[Trial, float]], Run]()
        once_more: list[Run] = []
        with ThreadPoolExecutor(self.size) as threads:
            try:
                while waiting or at_work:
                    while waiting and len(at_work) < self.size and self._fits(waiting[0], at_work):
                        run = waiting.popleft()
                        begins(run, _next(run))
                        at_work[threads.submit(self._run, run)] = run
                    beside = len(at_work)
                    for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                        run = at_work.pop(future)
                        trial, seconds = future.result()
                        self._most_seen = max(self._most_seen, _taken(trial))
                        if len(runs) > 1 and _may_be_the_others(trial, run):
                            once_more.append(run)
                        else:
                            yield Ended(run, trial, seconds / beside)
            except BaseException:
                self.server.cut()
                raise
        for run in once_more:
            begins(run, _next(run))
            yield Ended(run, *self._run(run))

    def _run(self, run: Run) -> tuple[Trial, float]:
        started = time.monotonic()
        trial = self.server.run(
            _next(run), run.experiment.measure.timeout_seconds, log=folders.log_file(run.folder)
        )
        return trial, time.monotonic() - started

    def _fits(self, run: Run, at_work: dict[Any, Run]) -> bool:
        """Beside those at work; the first one always does."""
        if not at_work:
            return True
        return self.free_bytes() >= sum(self._needs(each) for each in (run, *at_work.values()))

    def _needs(self, run: Run) -> int:
        host_mb = _next(run).host_limit_mb
        if host_mb is not None:
            return host_mb * 2**20
        tensors_mb = run.experiment.device.memory_limit_mb
        if tensors_mb is not None:
            return tensors_mb * 2**20 + _LEAST_BYTES
        return max(_LEAST_BYTES, 2 * self._most_seen)


def _next(run: Run) -> Assignment:
    assert run.next is not None
    return run.next


def _taken(trial: Trial) -> int:
    taken = trial.facts.get("process_peak_bytes")
    return taken if isinstance(taken, int) else 0


def _may_be_the_others(trial: Trial, run: Run) -> bool:
    """A limit of its own is nobody else's doing."""
    status = trial.outcome.status
    capped = run.experiment.device.memory_limit_mb or run.experiment.measure.host_limit_mb
    return status in (Status.KILLED, Status.TIMED_OUT) or (
        status is Status.OUT_OF_MEMORY and not capped
    )


def free_bytes() -> int:
    """What may be taken before the machine swaps, or a container ends somebody."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    group = Path("/sys/fs/cgroup")
    try:
        most = (group / "memory.max").read_text().strip()
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        held = int((group / "memory.current").read_text()) - int(stat["inactive_file"])
    except (OSError, ValueError, KeyError):
        return free
    return free if most == "max" else min(free, int(most) - held)
