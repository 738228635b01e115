"""A hundred kills at random moments: nothing is lost, doubled, left RUNNING or left behind.

    KILLS=20 SEED=3 python -m tests.benchmarks kills

Two commands at once measure sweeps, on one folder of outputs and one store. One process after the
other is killed below each of them: the command itself, the server that loads TensorFlow, a trial's
child, the store's process. A command that was killed is started again, with `resume=`; all others
must go on by themselves. Each wait is bounded, so that a stall is seen as one.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from runner import records
from runner.cell import PLAN_FILE
from runner.engine.open_runs import name_sweep
from runner.processes import process_tree
from runner.records import Status
from tests.resuming import GRID, stored, trials_kept

TARGETS = ("command", "server", "child", "store")
TIMING = 6
PLANNED = Counter([("memory", 0), *(("timing", index) for index in range(TIMING))])
MOST_SECONDS = 90.0
"""After a kill nothing takes longer: loading TensorFlow anew is 5 s, on a busy machine 30 s."""

_MARKS = {"server": "runner/processes/start.py", "store": "runner.store.publisher"}
_DELAYS = {"command": 8.0, "server": 5.0, "child": 0.1, "store": 4.0}
"""A process is killed within so many seconds after it was first there, or the kill before."""


@dataclass(frozen=True)
class Kill:
    """A kill, and how long it took until all went on, or until nothing was left of the command."""

    target: str
    seconds: float
    is_stall: bool = False


@dataclass
class Report:
    """What came of all kills."""

    kills: list[Kill] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sweeps: int = 0
    trials: int = 0
    cells: Counter[str] = field(default_factory=Counter)
    """Cells of finished sweeps, by status."""


@dataclass
class Lane:
    """One command after the other: a sweep, whose processes are killed until it is complete."""

    outputs: Path
    scratch: Path
    """The folder for temporary files of this lane's commands, and of nobody else's."""
    chance: random.Random
    left: int
    """Kills that are still to be made."""
    report: Report = field(default_factory=Report)
    _seed: int = 0

    def run(self) -> Report:
        """Measure sweeps until all kills are made, and the last of them to its end."""
        self.scratch.mkdir()
        first = self.chance.randrange(10**6)
        while self.left:
            self.report.sweeps += 1
            self._seed = first + self.report.sweeps
            self._measure_sweep()
        return self.report

    def _measure_sweep(self) -> None:
        kept: frozenset[str] = frozenset()
        is_over = False
        while not is_over:
            is_over = self._live()
            now = self._read_trials()
            if lost := kept - now:
                self.report.problems.append(f"{len(lost)} trials were lost")
            kept = now
        self.check_cells()

    def _live(self) -> bool:
        """Start the sweep, or go on with it, and kill; return whether it is over."""
        sweep = self._find_sweep()
        words = [*GRID, f"seed={self._seed}", f"measure.timing_processes={TIMING}"]
        words += ["measure.steps=5", "measure.max_seconds=0.1"]
        words += [f"resume={sweep}"] if sweep else []
        command = subprocess.Popen(
            [sys.executable, "-m", "runner", *words],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        killed: list[str] = []
        while self.left and "command" not in killed and (target := self._kill_one(command)):
            self.left -= 1
            killed.append(target)
            self.wait_for_more(command, target)
        try:
            _, said = command.communicate(timeout=3 * MOST_SECONDS)
        except subprocess.TimeoutExpired:
            self.report.problems.append(f"the command did not end; killed: {killed}")
            command.kill()
            return True
        is_ended = command.returncode in (0, 1) and "not have happened" not in said
        if not is_ended and "command" not in killed:
            self.report.problems.append(f"exit code {command.returncode}: {said[-500:]}")
        self.check_leavings(killed)
        # A server that is lost twice in one trial ends the command in order: it goes on by resume.
        is_stopped = command.returncode == 1 and "server" in killed and "ended" in said
        return "command" not in killed and not is_stopped

    def _kill_one(self, command: subprocess.Popen[str]) -> str | None:
        """Kill a process of some kind at some moment; return None if the command ended before."""
        target = self.chance.choice(TARGETS)
        while command.poll() is None:
            if found := self._find(command.pid, target):
                self._sleep(command, self.chance.uniform(0, _DELAYS[target]))
                if found == self._find(command.pid, target) and command.poll() is None:
                    process_tree.kill_all([found])
                    return target
            time.sleep(0.005)
        return None

    def _find(self, command: int, target: str) -> int | None:
        if target == "command":
            return command
        above = {pid: _read_line(pid) for pid in process_tree.list_children(command)}
        mark = _MARKS.get(target, _MARKS["server"])
        found = next((pid for pid, line in above.items() if mark in line), None)
        if target == "child" and found:
            return next(process_tree.list_children(found), None)
        return found

    def _sleep(self, command: subprocess.Popen[str], seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            command.wait(seconds)

    def wait_for_more(self, command: subprocess.Popen[str], target: str) -> None:
        """Wait until one more trial is there, or nothing of the command that has ended."""
        began, before = time.monotonic(), len(self._read_trials())
        while (seconds := time.monotonic() - began) < MOST_SECONDS:
            if command.poll() is not None and not list(self._list_processes()):
                break
            if target != "command" and len(self._read_trials()) > before:
                break
            time.sleep(0.02)
        is_stall = seconds >= MOST_SECONDS
        self.report.kills.append(Kill(target, seconds, is_stall))
        if is_stall:
            self.report.problems.append(f"{target}: nothing went on for {seconds:.0f} s")

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the commands of this lane."""
        named = {"RUNNER_OUTPUTS": str(self.outputs), "TMPDIR": str(self.scratch)}
        return {**os.environ, **named}

    def _list_processes(self) -> Iterator[int]:
        """Yield the processes of this lane's commands, whoever has them now."""
        mark = f"\0TMPDIR={self.scratch}\0".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in b"\0" + (entry / "environ").read_bytes():
                    yield int(entry.name)

    def check_leavings(self, killed: list[str]) -> None:
        """Note the processes and temporary files of a command that has ended."""
        deadline = time.monotonic() + MOST_SECONDS
        while (found := list(self._list_processes())) and time.monotonic() < deadline:
            time.sleep(0.05)
        if found:
            lines = [_read_line(pid) for pid in found]
            self.report.problems.append(f"processes left: {lines}; killed: {killed}")
        if files := sorted(each.name for each in self.scratch.iterdir()):
            self.report.problems.append(f"temporary files left: {files}; killed: {killed}")

    def _find_sweep(self) -> Path | None:
        plans = self.outputs.glob(f"sweeps/*/*/{PLAN_FILE}")
        return next((p.parent for p in plans if f'"seed={self._seed}"' in p.read_text()), None)

    def _read_trials(self) -> frozenset[str]:
        sweep = self._find_sweep()
        if not sweep:
            return frozenset()
        return trials_kept(self.outputs, f"{sweep.parent.name}/{sweep.name}")

    def check_cells(self) -> None:
        """Compare what a sweep that is over holds with what was asked for."""
        sweep = self._find_sweep()
        found = records.find(sweep) if sweep else []
        if len(found) != 4:
            self.report.problems.append(f"{len(found)} cells of 4 in {sweep}")
        for folder in found:
            record = records.read(folder)
            trials = Counter((trial.kind, trial.index) for trial in record.trials)
            self.report.trials += trials.total()
            self.report.cells[record.outcome.status] += 1
            is_right = trials == PLANNED if record.outcome.completed else trials <= PLANNED
            if not is_right or record.outcome.status not in (Status.COMPLETED, Status.KILLED):
                self.report.problems.append(f"{folder}: {record.outcome.words}, {dict(trials)}")


def kill_often(count: int, folder: Path, seed: int) -> Report:
    """Make so many kills, half of them in each of two lanes; everything lies below the folder."""
    outputs = folder / "outputs"
    lanes = [
        Lane(outputs, folder / f"scratch-{n}", random.Random(f"{seed}-{n}"), (count + n) // 2)
        for n in range(2)
    ]
    with ThreadPoolExecutor(len(lanes)) as threads:
        one, other = threads.map(Lane.run, lanes)
    both = Report(
        one.kills + other.kills,
        one.problems + other.problems,
        one.sweeps + other.sweeps,
        one.trials + other.trials,
        one.cells + other.cells,
    )
    both.problems += [*check_counts(both), *check_store(outputs)]
    return both


def check_counts(report: Report) -> list[str]:
    """Return what is wrong if more cells were ended than children were killed."""
    children = sum(kill.target == "child" for kill in report.kills)
    ended = report.cells[Status.KILLED]
    return [f"{ended} cells ended by {children} kills of a child"] if ended > children else []


def check_store(outputs: Path) -> list[str]:
    """Bring in what the store lacks, as its warnings say; return what is wrong with it then."""
    words = [sys.executable, "-m", "runner", "publish", str(outputs / "sweeps")]
    done = subprocess.run(
        words,
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    problems = [] if done.returncode == 0 else [f"publish: {done.stderr[-500:]}"]
    runs = stored(outputs)
    cells = records.find(outputs / "sweeps")
    sweeps = {name_sweep(cell.parent) for cell in cells}
    wanted = sorted([*sweeps, *(records.read_brief(cell).id for cell in cells)])
    if sorted(record for record, _ in runs) != wanted:
        problems.append(
            f"in MLflow {len(runs)} runs of {len(cells)} records and {len(sweeps)} sweeps"
        )
    if running := [record for record, status in runs if status == "RUNNING"]:
        problems.append(f"RUNNING in MLflow: {running}")
    if ended := [pair for pair in runs if pair[0] in sweeps and pair[1] != "FINISHED"]:
        problems.append(f"sweeps that are not FINISHED in MLflow: {ended}")
    return problems


def _read_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def main() -> None:
    count = int(os.environ.get("KILLS", "100"))
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = kill_often(count, Path(folder), seed)
    print(f"{'killed':8} {'times':>5} {'stalls':>6} {'median s':>8} {'longest s':>9}")
    for target in TARGETS:
        found = [kill for kill in report.kills if kill.target == target]
        if found:
            seconds = [kill.seconds for kill in found]
            stalls = sum(kill.is_stall for kill in found)
            median, longest = statistics.median(seconds), max(seconds)
            print(f"{target:8} {len(found):5} {stalls:6} {median:8.1f} {longest:9.1f}")
    cells = ", ".join(f"{number} {status}" for status, number in sorted(report.cells.items()))
    print(
        f"{len(report.kills)} kills (seed {seed}) in {time.monotonic() - began:.0f} s; "
        f"{report.sweeps} sweeps, {report.trials} trials, cells: {cells}; "
        f"{len(report.problems)} problems"
    )
    for problem in report.problems:
        print(f"  {problem}")
