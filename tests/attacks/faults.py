"""A fault at each system call that writes, syncs, renames or deletes, one after the other.

A command runs in a process that `strace` holds: at its nth call of a kind it fails, or is killed.
What is left must be whole: the same command again, without a fault, ends as if there had been none,
and nothing is lost, doubled, half-written or left RUNNING. On Linux, with strace; a command's own
process alone meets the faults, and trials are those of a server that measures nothing.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from unittest import mock

from runner import records
from runner.__main__ import main
from runner.cell import Plan
from runner.compose import composition
from runner.errors import RunnerError, is_systems_fault, translate_write_error
from runner.records import RECORD_FILE, TRIALS_FILE
from tests.attacks.strangers import _import_store
from tests.attacks.sweeps import PeakOfCell
from tests.factories import completed, kept
from tests.unit.engine.conftest import run_plan

CALLS = (
    *("write", "pwrite64", "writev", "fsync", "fdatasync", "ftruncate", "openat", "mkdir"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "fchmod", "link"),
)
FAULTS = ("error=EIO", "error=ENOSPC", "error=EMFILE", "signal=SIGKILL")
WORDS = ("scenario=tensor_per_step", "tracking=none", "measure.side_by_side=1", "seed=1")
DATE, TIMES = "2026-01-31", ("12-00-00-abc1", "12-00-00-abc2")
SECONDS = 60.0

Command = Callable[[Path], int]


@functools.cache
def _compose(*words: str) -> Plan:
    return composition.compose_plan([*words, *WORDS])


def _measure(outputs: Path, *words: str) -> int:
    kind = "sweeps" if words else "runs"
    folder = outputs / kind / DATE / TIMES[0]
    try:
        result = run_plan(_compose(*words), folder, PeakOfCell())
    except RunnerError as error:  # the front door's part
        print(f"runner: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if not is_systems_fault(error):
            raise
        print(f"runner: {translate_write_error(error)}", file=sys.stderr)
        return 1
    if result.stopped:
        print(f"runner: {result.stopped}", file=sys.stderr)
    return result.exit_code


def _run(outputs: Path) -> int:
    return _measure(outputs)


def _sweep(outputs: Path) -> int:
    return _measure(outputs, "-m", "scenario.elements=1,2,3")


def _publish(outputs: Path) -> int:
    return main(["publish", str(outputs / "runs"), "tracking=local"])


def _clean(outputs: Path) -> int:
    return main(["clean", str(outputs / "runs" / DATE), "--yes", "tracking=local"])


COMMANDS: dict[str, Command] = {"run": _run, "sweep": _sweep, "publish": _publish, "clean": _clean}


def prepare(name: str, outputs: Path) -> None:
    """Make what a command begins with."""
    outputs.mkdir(parents=True)
    if name in ("run", "sweep"):  # what it imports and composes is there before it is traced
        COMMANDS[name](outputs.parent / "before")
    if name in ("publish", "clean"):
        for time_of_day in TIMES:
            kept(completed(f"{DATE}-{time_of_day}"), outputs / "runs" / DATE / time_of_day)
            if name == "clean" or time_of_day == TIMES[0]:  # making a store is MLflow's affair
                _run_here("publish", outputs)


def describe(outputs: Path) -> list[str]:
    """Return all that must be the same in the end, whatever happened on the way."""
    found = []
    for file in sorted(outputs.rglob("*")):
        place = file.relative_to(outputs)
        if "artifacts" in place.parts or file.is_dir():
            continue
        if file.name == RECORD_FILE:
            record = records.read(file.parent)
            figures = {k: v for k, v in record.metrics.items() if not k.endswith("_seconds")}
            found.append(f"{place} {record.outcome} {figures} {len(record.trials)}")
        elif file.name == TRIALS_FILE:
            trials = [(each.kind, each.index) for each in records.read_trials(file.parent)]
            found.append(f"{place} {trials}")
        elif file.suffix in (".yaml", ".json", ".html") or file.name.startswith("."):
            found.append(str(place))
    return found + (_describe_store(outputs) if (outputs / "mlflow.db").exists() else [])


def _describe_store(outputs: Path) -> list[str]:
    from mlflow.entities import ViewType

    from runner.config import Tracking
    from runner.store.location import locate_store

    store = _import_store()(locate_store(Tracking("local", None, "runner"), outputs), 20.0)
    store.prepare()
    found = []
    for run in store._find_runs(""):
        folder = outputs / "artifacts" / run.info.run_id / "artifacts"
        # A killed upload of MLflow's leaves `.artifact.uploading.*`: no page shows it, and it goes
        # with the run.
        files = {file.name for file in folder.glob("[!.]*")}
        what = run.data.tags["record"], len(run.data.metrics), len(run.data.params)
        found.append(f"{run.info.status} {what} {sorted(files - {'run.log', 'report.html'})}")
    stray = {each.name for each in (outputs / "artifacts").glob("*")}
    known = store._find_runs(
        "", view=ViewType.ALL
    )  # what was given up is in the trash until `clean`
    stray -= {run.info.run_id for run in known}
    return [*sorted(found), f"{len(stray)} folders of no run" if stray else ""]


def _run_here(name: str, outputs: Path, inject: str = "", trace: Path | None = None) -> str:
    """Run a command in a process of its own, which strace holds if there is something to inject or
    to be traced; return how it ended and what it said."""
    said = outputs.parent / "said"
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ["RUNNER_OUTPUTS"] = str(outputs)
            os.close(go)
            os.read(ready, 1)
            code = COMMANDS[name](outputs)
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
            os._exit(code)
    os.close(ready)
    tracer = None
    if inject or trace:
        words = ["strace", "-qq", "-p", str(child), "-o", str(trace or "/dev/null")]
        words += ["-e", f"inject={inject}"] if inject else []
        calls = inject.partition(":")[0] if inject else ",".join(CALLS)
        tracer = subprocess.Popen([*words, "-e", f"trace={calls}"], stderr=subprocess.DEVNULL)
        status = Path(f"/proc/{child}/status")
        while "TracerPid:\t0" in status.read_text() and tracer.poll() is None:
            time.sleep(0.001)
    os.write(go, b".")
    os.close(go)
    deadline, status_code = time.monotonic() + SECONDS, None
    while status_code is None and time.monotonic() < deadline:
        pid, found = os.waitpid(child, os.WNOHANG)
        status_code = os.waitstatus_to_exitcode(found) if pid else None
        time.sleep(0.002)
    if status_code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if tracer:
        tracer.wait()
    text = said.read_text(errors="replace") if said.exists() else ""
    return f"{'hung' if status_code is None else status_code}\n{text}"


def list_calls(name: str, outputs: Path) -> list[tuple[str, int]]:
    """Return the calls that a command makes, each with its number among those of its name; of those
    that open a file, the ones that may write."""
    trace = outputs.parent / "trace"
    _run_here(name, outputs, trace=trace)
    numbers: Counter[str] = Counter()
    calls = []
    for line in trace.read_text(errors="replace").splitlines():
        if match := re.match(r"(\w+)\(", line):
            numbers[match[1]] += 1
            if match[1] != "openat" or re.search("O_CREAT|O_WRONLY|O_RDWR", line):
                calls.append((match[1], numbers[match[1]]))
    return calls


def inject_faults(folder: Path, name: str, share: float = 1.0) -> Iterator[str | None]:
    """Inject each fault at each call of a command, or at that share of them; yield None, or what
    fell short."""
    if name in ("publish", "clean"):
        _import_store()
    start = folder / name / "start"
    prepare(name, start / "outputs")

    def begin(number: int) -> Path:
        """Return a copy of the outputs that a command begins with, at a path of its own."""
        whole = shutil.copytree(start, folder / name / f"{number}") / "outputs"
        os.environ["RUNNER_OUTPUTS"] = str(whole)
        _describe_apart(whole)  # the store follows its outputs, as whoever uses it next does
        return whole

    with mock.patch.dict(os.environ):
        whole = begin(0)
        calls = list_calls(name, whole)
        _run_here(name, whole)
        expected = _describe_apart(whole)
        points = [(call, number, fault) for call, number in calls for fault in FAULTS]
        random.Random(f"faults {name}").shuffle(points)
        points = points[: max(1, round(len(points) * share))]
        for place, (call, number, fault) in enumerate(points, 1):
            whole = begin(place)
            problem = _judge(_run_here(name, whole, f"{call}:{fault}:when={number}"))
            second = _run_here(name, whole)
            found = _describe_apart(whole)
            if found != expected:
                lost, new = set(expected) - set(found), set(found) - set(expected)
                problem = f"afterwards it lacks {lost} and has {new}: {second[-300:]}"
            yield problem and f"{name}, {call} {number}, {fault}: {problem}"
            shutil.rmtree(whole.parent)


def _describe_apart(outputs: Path) -> list[str]:
    """Describe in a process of its own: no connection to a database may outlive a fork."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(describe, (outputs,))


def _judge(ended: str) -> str:
    """Return what is wrong with how a command ended that met a fault."""
    code, _, text = ended.partition("\n")
    if code not in ("0", "1", "2", "-9", "-13"):
        return f"it ended with {code}: {text[-300:]}"
    if "should not have happened" in text or "Traceback" in text:
        return text[-400:]
    return ""
