"""Trials on this machine: in rounds, memory trials side by side where nothing can come of it.

A round takes every run's next trial, in shuffled order, so that a slow minute hits all cells alike.

A memory trial counts the bytes that its own process asks for, and other processes do not change
them. So memory trials run side by side, except:

- never beside a timing trial, which has the machine for itself (the parent sleeps meanwhile);
- not where TensorFlow's concurrency moves the peak, as the scenario declares (`varies`) or as the
  cell's trials have shown: on a busy machine the range would be another one;
- not on a card, whose memory is one for all;
- only while the machine's free memory, without swap, holds what each of them may take: its own
  limit, or else twice what the largest trial before has taken.

A trial that ended in company by a signal, its deadline or want of memory is run again alone, and
that is what counts.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from runner.analysis import estimate, repeatability
from runner.cell import TrialSpec
from runner.config import Device, Experiment
from runner.engine import environment, folders
from runner.engine.events import Notifier, PhaseEntered, StepsSought, TrialEnded, TrialStarted
from runner.engine.run import Run
from runner.errors import Unavailable
from runner.machine import Machine
from runner.processes import mallocs
from runner.processes.children import OnNews
from runner.processes.server import TrialServer
from runner.records import Phase, RepeatedCalls, Status, Trial
from runner.scenario import find_variation
from runner.signals import defer_signals, raise_if_stopped

_LEAST_BYTES = 2**30
"""A trial is taken to need this before any has been seen: TensorFlow, the tracer, small tensors."""
_MOST_AT_ONCE = 32
"""More at once gain nothing: one server forks them all."""


@dataclass
class LocalExecutor:
    """Runs trials on this machine, each in a child of one warm server."""

    server: TrialServer
    _environment: Mapping[str, str] = field(default_factory=dict)
    """What the first cell's processes are started with."""
    _shuffler: random.Random | None = None
    _pool: TrialPool | None = None

    def prepare(self, folder: Path, seed: int) -> None:
        """Start loading TensorFlow, and return at once. Nothing happens the second time."""
        if self._shuffler is None:
            self._shuffler = random.Random(seed)
            self.server.log = folders.make_log(folder)
            self.server.start(self._environment)
            with defer_signals():
                estimate.preload_scipy()  # beside the loading of TensorFlow

    def check(self, experiments: Sequence[Experiment], must_have_device: bool) -> None:
        """Raise `Unavailable`, before anything is written, if this machine lacks what all of the
        experiments need; of several, one may lack its device, and its record has the reason."""
        for experiment in experiments:
            mallocs.find_variables(experiment.device)
        self._environment = experiments[0].environment if experiments else {}
        missing: list[Unavailable] = []
        for experiment in experiments if must_have_device else ():
            try:
                _require_device(experiment, self.server)
            except Unavailable as error:
                missing.append(error)
        if missing and len(missing) == len(experiments):
            raise missing[0]

    @cached_property
    def machine(self) -> Machine:
        """This machine, as it was when the measurement began."""
        return environment.describe_machine()

    def run_round(self, runs: Sequence[Run], notify: Notifier) -> Iterator[Run]:
        """Run the next trial of each run; yield the run when the trial is on the disk. Memory
        trials that may run side by side come first, then memory trials alone, then time."""
        assert self._shuffler is not None, "prepare() comes first"
        shuffled = self._shuffler.sample(runs, len(runs))
        most = runs[0].experiment.measure.side_by_side
        together = [run for run in shuffled if most != 1 and can_run_concurrently(run)]
        together = together if len(together) > 1 else []
        chosen = {id(run) for run in together}
        self._pool = self._pool or TrialPool(self.server, most)
        with closing(self._pool.run(together, notify)) as trials:
            for ended in trials:
                yield ended.keep(notify)
        for run in shuffled:
            if id(run) not in chosen:
                yield run_alone(self.server, run, notify).keep(notify)

    def close(self) -> None:
        self.server.stop()


@dataclass(frozen=True)
class EndedTrial:
    """A trial that has ended, and its share of the time that all beside it took."""

    run: Run
    spec: TrialSpec
    trial: Trial
    seconds: float

    def keep(self, notify: Notifier) -> Run:
        """Put the trial on the disk, and notify listeners."""
        with defer_signals():
            self.run.add_trial(self.trial)
        notify(TrialEnded(self.run, self.spec, self.seconds))
        return self.run


def next_trial(run: Run) -> TrialSpec:
    spec = run.next
    assert spec is not None
    return spec


def run_trial(server: TrialServer, run: Run, on_news: OnNews = lambda _: None) -> EndedTrial:
    """Run the next trial of a run."""
    spec, log = next_trial(run), folders.make_log(run.folder)
    trial = server.run(spec, run.experiment.measure.timeout_seconds, on_news, log)
    return EndedTrial(run, spec, trial, trial.facts.seconds or 0.0)


def run_alone(server: TrialServer, run: Run, notify: Notifier) -> EndedTrial:
    """Run the next trial of a run, and notify listeners of it and of its phases."""
    raise_if_stopped()
    spec = next_trial(run)
    notify(TrialStarted(run, spec))
    if spec.is_timed:  # the parent sleeps while a timing trial runs
        return run_trial(server, run)

    def pass_on(news: Phase | RepeatedCalls) -> None:
        notify(PhaseEntered(news) if isinstance(news, Phase) else StepsSought(run, news))

    return run_trial(server, run, pass_on)


def can_run_concurrently(run: Run) -> bool:
    """Return whether a run's next trial may run beside others."""
    spec = run.next
    return (
        spec is not None
        and spec.kind == "memory"
        and not _is_on_card(run.experiment.device)
        and find_variation(run.experiment.scenario, run.experiment.execution) is None
        and not repeatability.has_differing(run.memory_trials)
    )


@dataclass
class TrialPool:
    """Runs memory trials side by side, as many as fit; each waits in a thread of its own."""

    server: TrialServer
    most_at_once: int | None
    """The user's choice; None: as many as there are cores."""
    _largest_seen: int = 0

    @property
    def size(self) -> int:
        return min(self.most_at_once or len(os.sched_getaffinity(0)), _MOST_AT_ONCE)

    def run(self, runs: Sequence[Run], notify: Notifier) -> Generator[EndedTrial, None, None]:
        """Yield the next trial of each run as it ends; closing it ends those that still run."""
        waiting, running = deque(runs), dict[Future[EndedTrial], Run]()
        again: list[Run] = []
        with ThreadPoolExecutor(self.size) as threads:
            try:
                while waiting or running:
                    raise_if_stopped()
                    while waiting and self._has_room(waiting[0], running.values()):
                        run = waiting.popleft()
                        notify(TrialStarted(run, next_trial(run)))
                        running[threads.submit(run_trial, self.server, run)] = run
                    beside = len(running)
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        run, ended = running.pop(future), future.result()
                        peak = ended.trial.facts.process_peak_bytes or 0
                        self._largest_seen = max(self._largest_seen, peak)
                        if len(runs) > 1 and caused_by_contention(ended.trial, ended.spec):
                            again.append(run)
                        else:
                            yield replace(ended, seconds=ended.seconds / beside)
            except BaseException:
                self.server.terminate()
                raise
        for run in again:
            yield run_alone(self.server, run, notify)

    def _has_room(self, run: Run, running: Collection[Run]) -> bool:
        """Return whether one more may start; the first one always may."""
        if not running or len(running) >= self.size:
            return not running
        needed = sum(self._estimate_bytes(next_trial(other)) for other in (run, *running))
        return read_free_bytes() >= needed

    def _estimate_bytes(self, spec: TrialSpec) -> int:
        if spec.host_limit_mb is not None:
            return spec.host_limit_mb * 2**20
        tensors_mb = spec.experiment.device.memory_limit_mb
        if tensors_mb is not None:
            return tensors_mb * 2**20 + _LEAST_BYTES
        return max(_LEAST_BYTES, 2 * self._largest_seen)


def caused_by_contention(trial: Trial, spec: TrialSpec) -> bool:
    """Return whether other processes may have ended the trial; its own limit is its own doing."""
    status, experiment = trial.outcome.status, spec.experiment
    has_limit = experiment.device.memory_limit_mb or experiment.measure.host_limit_mb
    return status in (Status.KILLED, Status.TIMED_OUT) or (
        status is Status.OUT_OF_MEMORY and not has_limit
    )


def _require_device(experiment: Experiment, server: TrialServer) -> None:
    """Raise `Unavailable` if a GPU is asked for that TensorFlow does not see: a child looks."""
    device = experiment.device
    if device.kind == "cpu" or (device.kind == "auto" and device.index == 0):
        return
    spec, seconds = TrialSpec(experiment, "look", 0), experiment.measure.timeout_seconds
    outcome = server.run(spec, seconds, log=Path(os.devnull)).outcome
    if outcome.status is Status.UNSUPPORTED:
        raise Unavailable(outcome.reason or "")


@cache
def _is_on_card(device: Device) -> bool:
    """Return whether it is on a card, or likely so: only TensorFlow knows, in a child."""
    if device.kind != "auto":
        return device.kind == "gpu"
    return any(next(Path("/dev").glob(name), None) for name in ("nvidia[0-9]*", "kfd"))


def read_free_bytes() -> int:
    """Return what may be taken before the machine swaps, or a container ends somebody."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        held = int((group / "memory.current").read_text()) - int(stat["inactive_file"])
    except (OSError, ValueError, KeyError):
        return free
    return free if limit == "max" else min(free, int(limit) - held)
