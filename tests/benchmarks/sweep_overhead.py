"""What a sweep costs: planning it, its trials over the work that they measure, the parent's memory;
how much sooner memory trials are over side by side; how long 10,000 records take to become a table;
and what a run costs in the store.

    python -m tests.benchmarks sweep_overhead
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner import records
from runner.config import Tracking
from runner.store.background import BackgroundPublisher

WORDS = ("-m", "scenario=tensor_per_step", "scenario.elements=10")
BRIEF = ("measure.timing_processes=1", "measure.steps=5", "measure.max_seconds=0.1")

_SWEEP = """
import json, sys, time
from runner.commands import _measurement as measuring, call
from runner.engine.events import MeasurementEnded
from runner.render.listeners import SweepFilesListener

def peak():
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1e3

times, measure, on = [time.monotonic()], measuring.measure, SweepFilesListener.on
def begin(*arguments):
    times.append(time.monotonic())
    return measure(*arguments)

def end(self, event):
    if isinstance(event, MeasurementEnded):
        times.extend([time.monotonic(), peak()])
    on(self, event)
    if isinstance(event, MeasurementEnded):
        times.append(time.monotonic())

measuring.measure, SweepFilesListener.on = begin, end
code = call("run", sys.argv[1:])
print(json.dumps([code, *times, peak()]))
"""

_TABLE = """
import sys, time
import runner
started = time.monotonic()
frame = runner.load(sys.argv[1])
seconds = time.monotonic() - started
status = open("/proc/self/status").read()
print(len(frame), seconds, int(status.partition("VmHWM:")[2].split()[0]) / 1e3)
"""


_PLAN = """
import json, sys, time
from pathlib import Path
from runner.compose import composition
from runner.engine.grid import Grid
from runner.engine.open_runs import OpenRuns
from runner.engine.scheduler import LocalExecutor

def resident():
    status = open("/proc/self/status").read()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1e3

started, began = time.process_time(), resident()
plan = composition.compose_plan(sys.argv[2:])
planned = time.process_time()
OpenRuns(Path(sys.argv[1]), LocalExecutor(None)).open(Grid(plan).ask())
opened = time.process_time()
print(json.dumps([len(plan.cells), planned - started, opened - planned, resident() - began]))
"""

SIDE_BY_SIDE = (
    *("-m", "scenario=large_tensor", "scenario.size=100,300", "execution=eager,graph"),
    *("seed=range(50)", "measure.timing_processes=0", "tracking=none"),
)
"""200 cells whose peaks repeat."""


def main() -> None:
    for cells in (100, 1000, 10_000):
        plan_of(cells)
    side_by_side()
    for cells in (10, 100, 1000):
        sweep_of(cells, "tracking=none")
    sweep_of(10, "tracking=local")
    table_of(10_000)
    store_of(200)
    store_beside(200)


def plan_of(cells: int) -> None:
    with tempfile.TemporaryDirectory() as outputs:
        words = (f"{outputs}/sweep", *WORDS, f"seed=range({cells})")
        count, planning, opening, megabytes = _told(_PLAN, words, outputs)
    assert count == cells
    print(
        f"{cells:>6} cells: {1000 * planning / cells:.2f} ms of processor time a cell to plan  "
        f"[at most 1; the first of all takes 0.2 s], {1000 * opening / cells:.2f} ms "
        f"for its folder; {megabytes:.0f} MB more in the parent"
    )


def side_by_side() -> None:
    seconds, tables = [], []
    for at_once in (1, 2):
        with tempfile.TemporaryDirectory() as outputs:
            words = (*SIDE_BY_SIDE, f"measure.side_by_side={at_once}")
            code, *_ = _told(_SWEEP, words, outputs)
            assert code == 0
            records_at = [path.stat().st_mtime for path in Path(outputs).rglob("record.json")]
            seconds.append(max(records_at) - min(records_at))  # without TensorFlow's loading
            (table,) = Path(outputs).rglob("table.csv")
            tables.append(table.read_text())
    same = "the tables are equal" if tables[0] == tables[1] else "THE TABLES DIFFER"
    print(
        f"200 memory trials one by one / two at a time: {seconds[0] / seconds[1]:.2f}  "
        f"({seconds[0]:.0f} s / {seconds[1]:.0f} s)  [at least 1.7]; {same}"
    )


def sweep_of(cells: int, tracking: str) -> None:
    with tempfile.TemporaryDirectory() as outputs:
        words = (*WORDS, f"seed=range({cells})", *BRIEF, tracking)
        code, began, opened, ended, measuring_mb, over, peak_mb = _told(_SWEEP, words, outputs)
        assert code == 0
        folders = records.find(Path(outputs))
        trials = [trial for folder in folders for trial in records.read_trials(folder)]
    # What a memory trial's steps take nobody measures: all of it counts as cost.
    work = sum(phase.seconds or 0.0 for trial in trials for phase in trial.phases.values())
    running = ended - opened
    print(
        f"{cells:>5} cells, {len(trials)} trials, {tracking}: "
        f"{1000 * (running - work) / len(trials):.0f} ms a trial over the "
        f"{1000 * work / len(trials):.0f} ms measured (its process, its record), "
        f"{1000 * (opened - began) / cells:.0f} ms a cell to compose, "
        f"{over - ended:.1f} s for table and report; "
        f"parent's peak {measuring_mb:.0f} MB while measuring, {peak_mb:.0f} MB in all"
    )


def table_of(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        kilobytes = copy_run(Path(name), count)
        rows, seconds, megabytes = _told(_TABLE, [f"{name}/copies"], name)
    print(
        f"{rows:.0f} records of {kilobytes:.0f} kB to a table: {seconds:.1f} s, "
        f"{megabytes:.0f} MB  [under 5 s, 1 GB]"
    )


def store_of(count: int) -> None:
    """Wall time and processor time of a run in the store, without the start of the command."""
    with tempfile.TemporaryDirectory() as name:
        copy_run(Path(name), count)
        publish(name, "copies/0")  # which makes the store
        start, start_used = publish(name, "copies/0")
        seconds, used = publish(name, "copies")
    print(
        f"{count} runs of measure=quick into a SQLite store: "
        f"{1000 * (seconds - start) / (count - 1):.0f} ms a run  [at most 100], "
        f"{1000 * (used - start_used) / (count - 1):.0f} ms of processor time"
    )


def store_beside(count: int) -> None:
    """Wall time of a run in the store as a measurement has it published, with its page drawn."""
    with tempfile.TemporaryDirectory() as name:
        copy_run(Path(name), count)
        folders = records.find(Path(name) / "copies")
        publish_beside(Path(name), folders[:1])  # which makes the store
        start = publish_beside(Path(name), folders[:1])
        seconds = publish_beside(Path(name), folders) - start
    print(
        f"the same beside a measurement: {1000 * seconds / (count - 1):.0f} ms a run  [at most 100]"
    )


def publish_beside(outputs: Path, folders: Sequence[Path]) -> float:
    started = time.monotonic()
    publisher = BackgroundPublisher(Tracking("local", None, "runner"), outputs, outputs / "log")
    for folder in folders:
        publisher.publish(folder)
    assert not any(published.problem for published in publisher.finish())
    return time.monotonic() - started


def publish(outputs: str, what: str) -> tuple[float, float]:
    """Return the seconds that the command takes, and those of a processor in all its processes."""
    words = [sys.executable, "-m", "runner", "publish", f"{outputs}/{what}", "tracking=local"]
    started, before = time.monotonic(), os.times()
    environment = {**os.environ, "RUNNER_OUTPUTS": outputs}
    subprocess.run(words, check=True, capture_output=True, env=environment)
    after = os.times()
    used = after.children_user + after.children_system
    return time.monotonic() - started, used - before.children_user - before.children_system


def copy_run(outputs: Path, count: int) -> float:
    """Make copies of the folder of a real run of measure=quick, each with an id of its own; return
    the kilobytes of a record."""
    environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
    run = [sys.executable, "-m", "runner", "scenario=while_loop", "tracking=none"]
    subprocess.run(run, check=True, capture_output=True, env=environment)
    (file,) = outputs.rglob(records.RECORD_FILE)
    text = file.read_text()
    record = json.loads(text)
    for number in range(count):
        copy = shutil.copytree(file.parent, outputs / "copies" / str(number))
        (copy / file.name).write_text(text.replace(record["id"], f"{record['id']}-{number}"))
    return len(text) / 1e3


def _told(code: str, words: Sequence[str], outputs: str) -> Any:
    """The last line that the code prints in a fresh interpreter, as JSON or as numbers."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "RUNNER_OUTPUTS": outputs},
    )
    assert done.returncode == 0, done.stderr
    line = done.stdout.strip().splitlines()[-1]
    return json.loads(line if line.startswith("[") else f"[{','.join(line.split())}]")
