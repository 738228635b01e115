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
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Condition

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
    assignment = run.next
    return (
        assignment is not None
        and _is_sociable(assignment)
        and not repeats.differ(run.memory_trials)
    )


def _is_sociable(assignment: Assignment) -> bool:
    experiment = assignment.experiment
    return (
        assignment.kind == "memory"
        and not _on_card(experiment.device)
        and varies(experiment.scenario, experiment.execution) is None
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
class _Room:
    """Remembers how much the trials in it take."""

    server: Server
    at_once: int | None
    """As the user says; None: as many as there are cores."""
    free_bytes: Callable[[], int] = field(default_factory=lambda: free_bytes)
    _most_seen: int = 0

    @property
    def size(self) -> int:
        return min(self.at_once or len(os.sched_getaffinity(0)), _MOST)

    def _fits(self, assignment: Assignment, at_work: Iterable[Assignment]) -> bool:
        """Beside those at work."""
        needed = sum(self._needs(each) for each in (assignment, *at_work))
        return self.free_bytes() >= needed

    def _needs(self, assignment: Assignment) -> int:
        if assignment.host_limit_mb is not None:
            return assignment.host_limit_mb * 2**20
        tensors_mb = assignment.experiment.device.memory_limit_mb
        if tensors_mb is not None:
            return tensors_mb * 2**20 + _LEAST_BYTES
        return max(_LEAST_BYTES, 2 * self._most_seen)

    def _learn(self, trial: Trial) -> None:
        taken = trial.facts.get("process_peak_bytes")
        self._most_seen = max(self._most_seen, taken if isinstance(taken, int) else 0)


class Company(_Room):
    """Of one plan, all of whose next trials are known."""

    def trials(
        self, runs: Sequence[Run], begins: Callable[[Run, Assignment], None]
    ) -> Generator[Ended, None, None]:
        """The next trial of each; to be closed, which ends those that are at work."""
        waiting, at_work = deque(runs), dict[Future[tuple[Trial, float]], Run]()
        once_more: list[Run] = []
        with ThreadPoolExecutor(self.size) as threads:
            try:
                while waiting or at_work:
                    while waiting and self._may_join(waiting[0], at_work.values()):
                        run = waiting.popleft()
                        begins(run, _next(run))
                        at_work[threads.submit(self._run, run)] = run
                    beside = len(at_work)
                    for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                        run = at_work.pop(future)
                        trial, seconds = future.result()
                        self._learn(trial)
                        if len(runs) > 1 and _may_be_the_others(trial, _next(run)):
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

    def _may_join(self, run: Run, at_work: Collection[Run]) -> bool:
        """The first one always may."""
        if not at_work:
            return True
        return len(at_work) < self.size and self._fits(_next(run), map(_next, at_work))


@dataclass(eq=False)
class _Place:
    assignment: Assignment
    is_alone: bool
    has_met: bool = False
    """Another one, at any time."""


@dataclass
class Turns(_Room):
    """Of searches, each in a thread of its own, that find their next trial by their last ones."""

    _waiting: list[_Place] = field(default_factory=list)
    _at_work: list[_Place] = field(default_factory=list)
    _changed: Condition = field(default_factory=Condition)

    def run(self, assignment: Assignment) -> Trial:
        """Beside the others' memory trials, if this is one that may have company; else alone."""
        with self._place(assignment, not _is_sociable(assignment)) as place:
            trial = self._run(assignment)
        if place.has_met and _may_be_the_others(trial, assignment):
            with self._place(assignment, is_alone=True):
                trial = self._run(assignment)
        self._learn(trial)
        return trial

    def _run(self, assignment: Assignment) -> Trial:
        return self.server.run(assignment, assignment.experiment.measure.timeout_seconds)

    @contextmanager
    def _place(self, assignment: Assignment, is_alone: bool) -> Iterator[_Place]:
        place = _Place(assignment, is_alone)
        with self._changed:
            self._waiting.append(place)
            self._changed.wait_for(lambda: self._may_enter(place))
            self._waiting.remove(place)
            for other in self._at_work:
                place.has_met = other.has_met = True
            self._at_work.append(place)
        try:
            yield place
        finally:
            with self._changed:
                self._at_work.remove(place)
                self._changed.notify_all()

    def _may_enter(self, place: _Place) -> bool:
        """Who wants to be alone comes before those that don't mind, or would wait for ever."""
        if place.is_alone:
            return not self._at_work
        if any(each.is_alone for each in (*self._waiting, *self._at_work)):
            return False
        beside = [each.assignment for each in self._at_work]
        return not beside or (len(beside) < self.size and self._fits(place.assignment, beside))


def _next(run: Run) -> Assignment:
    assert run.next is not None
    return run.next


def _may_be_the_others(trial: Trial, assignment: Assignment) -> bool:
    """A limit of its own is nobody else's doing."""
    status, experiment = trial.outcome.status, assignment.experiment
    capped = experiment.device.memory_limit_mb or experiment.measure.host_limit_mb
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
