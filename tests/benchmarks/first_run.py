"""What one run costs over its own work, and how close its meters come to the truth.

python -m tests.benchmarks first_run
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runner.analysis.estimate import estimate_median_interval
from runner.cell import TrialSpec
from runner.config import Device, Experiment, Measure, Tracking
from runner.processes.server import TrialServer
from runner.records import Phase
from tests.benchmarks._multiply import MULTIPLY, Multiply
from tests.benchmarks._steps import Sleep, Spike

ANYWHERE = Device("auto", 0, None, None, None)
UNTRACKED = Tracking("none", None, "runner")
_AS_USERS = {key: said for key, said in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""Installed packages are compiled; so is a copy of the runner, from its second start on."""
BRIEF = Measure("brief", 1, 1, 0, 5, 5, 10.0, 3, 60.0, None)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = TrialServer(Path(folder) / "server.log")
        server.start()
        _run(server, Multiply())  # the server is warm from here on
        isolated_trial(server)
        first_command()
        config_error()
        idle_parent(server)
        step_time(server)
        spikes(server, Path(folder))
        server.stop()


def _run(server: TrialServer, scenario: Any, measure: Measure = BRIEF, kind: str = "timing") -> Any:
    experiment = Experiment("benchmark", scenario, "eager", ANYWHERE, measure, UNTRACKED, 32, 0)
    trial = server.run(TrialSpec(experiment, kind, 0), measure.timeout_seconds)
    assert trial.outcome.completed, trial.outcome
    return trial


def isolated_trial(server: TrialServer) -> None:
    """(a) An isolated trial against the same step in a fresh interpreter, and where its time
    goes."""
    fresh_code = f"{MULTIPLY}\nfor _ in range(6): step()"
    ours, fresh = _side_by_side(lambda: _run(server, Multiply()), lambda: _python(fresh_code), 7)
    _print("(a) fresh interpreter / isolated trial", fresh, ours, "at least 40")
    looks, timed, memory = [], [], []
    phases: dict[str, list[float]] = {"build": [], "first_call": [], "steps": [], "release": []}
    for _ in range(15):
        looks.append(_seconds(lambda: _run(server, Multiply(), kind="look")))
        timed.append(_seconds(lambda: phases_of(_run(server, Multiply()), phases)))
        memory.append(_seconds(lambda: _run(server, Multiply(), kind="memory")))
    look, whole, traced = (statistics.median(each) for each in (looks, timed, memory))
    spent = {name: statistics.median(each) for name, each in phases.items()}
    parts = {
        "fork, list of devices, end": look,
        "device and first op (build)": spent["build"],
        "first step": spent["first_call"],
        "5 steps": spent["steps"],
        "release": spent["release"],
        "meters and result": whole - look - sum(spent.values()),
    }
    told = ", ".join(f"{name} {1000 * seconds:.0f}" for name, seconds in parts.items())
    print(f"    of {1000 * whole:.0f} ms: {told}")
    print(f"    a memory trial: {1000 * traced:.0f} ms, its profiler and lines included")


def phases_of(trial: Any, seconds: dict[str, list[float]]) -> None:
    for name, known in seconds.items():
        known.append(trial.figures(name).seconds)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def first_command() -> None:
    """(b) A first command against `import tensorflow`: its summary, and its end, with everything in
    the store; with a store that is there, and with nothing made yet. One whose own work is next to
    nothing, and the README's, whose graph takes several memory trials and steps of milliseconds."""
    for words in (("scenario=large_tensor", "scenario.size=100"), ("scenario=while_loop",)):
        with tempfile.TemporaryDirectory() as there:
            _command(words, there)
            _first_command(words, there, "at most 1.1", "at most 1.2")
            _first_command(words, None, "at most 1.2", "at most 1.4 to 1.6")


def _first_command(
    words: Sequence[str], outputs: str | None, summary_wanted: str, end_wanted: str
) -> None:
    summaries, ends, bare = [], [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as new:
            told, ended = _command(words, outputs or new)
        summaries.append(told)
        ends.append(ended)
        bare.append(_seconds(lambda: _python("import tensorflow")))
    of = f"{words[0]}, {'a store that is there' if outputs else 'a new store'}"
    _print(f"(b) summary / import tensorflow, {of}", summaries, bare, summary_wanted)
    _print(f"    end / import tensorflow, {of}", ends, bare, end_wanted)
    after = statistics.median(b - a for a, b in zip(summaries, ends, strict=True))
    print(f"    the end comes {after:.2f} s after the summary  [under 1 s]")


def _command(words: Sequence[str], outputs: str) -> tuple[float, float]:
    """Seconds until the summary has been told, and until the process has ended."""
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "runner", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**_AS_USERS, "RUNNER_OUTPUTS": outputs},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("  record "):  # its last one
                told = time.perf_counter() - started
        assert process.wait() == 0
    return told, time.perf_counter() - started


def config_error() -> None:
    """(c) The answer to a mistyped value against `import hydra`."""

    def command() -> None:
        words = [sys.executable, "-m", "runner", "scenario=while_loop", "batch_size=0"]
        assert subprocess.run(words, capture_output=True, env=_AS_USERS).returncode == 2

    ours, bare = _side_by_side(command, lambda: _python("import hydra"), 15)
    _print("(c) config error / import hydra", ours, bare, "at most 3")


def idle_parent(server: TrialServer) -> None:
    """(d) What the parent does while a trial sleeps for 10 s."""
    measure = Measure("sleep", 1, 1, 0, 1, 1, 100.0, 1, 60.0, None)
    before, started = time.process_time(), time.monotonic()
    _run(server, Sleep(5.0), measure)
    used, passed = time.process_time() - before, time.monotonic() - started
    share = 100 * used / passed
    print(f"(d) parent's CPU while a trial sleeps {passed:.1f} s: {share:.2f} %  [under 1 %]")


def step_time(server: TrialServer) -> None:
    """(e) A step as measured here against a bare loop around it in a fresh interpreter."""
    measure = Measure("steps", 1, 1, 20, 300, 300, 100.0, 1, 60.0, None)
    bare_code = f"""{MULTIPLY}
seconds = []
for _ in range(321):
    started = time.perf_counter()
    step()
    seconds.append(time.perf_counter() - started)
import statistics
print(statistics.median(seconds[21:]))
"""
    ours, bare = [], []
    for _ in range(20):
        server.stop()  # forks of one server share its memory layout, and with it a bias: a new one
        server.start()
        _run(server, Multiply())
        ours.append(statistics.median(_run(server, Multiply(), measure).steps.seconds[20:]))
        bare.append(float(_python(bare_code)))
    ratios = [math.log(a / b) for a, b in zip(ours, bare, strict=True)]
    low, high = estimate_median_interval(ratios)
    middle = math.exp(statistics.median(ratios))
    print(
        f"(e) step here / in a bare loop: {middle:.3f}, 95 % interval {math.exp(low):.3f} to "
        f"{math.exp(high):.3f}, 20 pairs of processes  [contains 1, within 3 %]"
    )


def spikes(server: TrialServer, folder: Path) -> None:
    """(f) The peak of 400 MB held for a moment: this meter, a 10 ms sampler, the truth."""
    measure = Measure("spike", 1, 1, 0, 5, 5, 100.0, 1, 60.0, None)
    print("(f) peak of 400 MB held for a moment, median of 5 trials' first steps:")
    for milliseconds in (1, 5, 20):
        seen, sampled = [], []
        for _ in range(5):
            pid_file = folder / "pid"
            pid_file.unlink(missing_ok=True)
            with _Sampler(pid_file) as sampler:
                trial = _run(server, Spike(400, milliseconds / 1000, str(pid_file)), measure)
            seen.append(trial.figures(Phase.STEPS).host_peak_bytes / 1e6)
            sampled.append(sampler.peak_bytes / 1e6)
        print(
            f"    held {milliseconds:>2} ms: this meter {statistics.median(seen):.1f} MB, "
            f"10 ms sampler {statistics.median(sampled):.1f} MB "
            f"(worst {min(sampled):.1f}), truth 400.0 MB"
        )


class _Sampler:
    """Reads another process's resident memory every 10 ms, as monitoring tools do."""

    def __init__(self, pid_file: Path) -> None:
        self._pid_file = pid_file
        self._over = threading.Event()
        self.peak_bytes = 0

    def __enter__(self) -> _Sampler:
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._pid_file.exists() or not self._pid_file.read_text():
            if self._over.wait(0.001):
                return
        path = Path(f"/proc/{self._pid_file.read_text()}/statm")
        page, first = os.sysconf("SC_PAGE_SIZE"), None
        while not self._over.wait(0.01):
            try:
                _, resident, shared, *_ = map(int, path.read_text().split())
            except (OSError, ValueError):
                return
            anonymous = (resident - shared) * page
            first = anonymous if first is None else first
            self.peak_bytes = max(self.peak_bytes, anonymous - first)


def _python(code: str) -> str:
    words = [sys.executable, "-c", code]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _side_by_side(
    one: Callable[[], object], other: Callable[[], object], pairs: int
) -> tuple[list[float], list[float]]:
    """Seconds of each, taken in turns; the first of both is not counted."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs + 1):
        for which, work in enumerate((one, other)):
            started = time.perf_counter()
            work()
            if pair:
                seconds[which].append(time.perf_counter() - started)
    return seconds


def _print(what: str, above: Sequence[float], below: Sequence[float], wanted: str) -> None:
    top, bottom = statistics.median(above), statistics.median(below)
    ratio = top / bottom
    print(f"{what}: {ratio:.2f}  ({top:.3f} s / {bottom:.3f} s, {len(above)} pairs)  [{wanted}]")
