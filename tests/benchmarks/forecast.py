"""How far the forecast of ten commands is off: what is said to be left after the first trial, of a
sweep after the first cell, against what was left.

    python -m tests.benchmarks forecast

It reads the line that a terminal shows.
"""

from __future__ import annotations

import os
import pty
import re
import sys
import tempfile
import time

COMMANDS = (
    "scenario=while_loop",
    "scenario=numpy_loop measure.max_seconds=3",
    "scenario=keras_training scenario.model=transformer execution=graph",
    "scenario=keras_training scenario.model=cnn batch_size=256",
    "scenario=python_loop scenario.size=400 execution=xla",
    "-m scenario=python_loop,while_loop batch_size=32,512 scenario.size=400",
    "-m scenario=keras_training scenario.model=transformer,cnn execution=eager,graph",
    "fit vary=batch_size max=100000 device.memory_limit_mb=64 scenario=dense_batch",
    "fit vary=batch_size max=1000 device.memory_limit_mb=256 scenario=keras_training "
    "scenario.model=transformer",
    "leak scenario=tensor_per_step scenario.release=keep",
)
"""A run, a sweep, a fit, a leak; cheap and costly, graphs and eager."""

_LEFT = re.compile(r"about ([\d.]+) (s|min|h) left")
_CELLS = re.compile(r"([1-9]\d*)/\d+ cells")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def main() -> None:
    worst = 1.0
    for command in COMMANDS:
        words = command.split()
        with tempfile.TemporaryDirectory() as outputs:
            said, ended = _run(words if "fit" in words else [*words, "tracking=none"], outputs)
        # Nothing is said before a trial has ended.
        at, seconds, _ = next(each for each in said if each[2] or "-m" not in words)
        left = ended - at
        factor = max(seconds, 1.0) / max(left, 1.0)
        worst = max(worst, factor, 1 / factor)
        print(
            f"{command}: {seconds:.0f} s were said to be left, it took {left:.0f} s, "
            f"{factor:.2f} times",
            flush=True,
        )
    print(f"off by {worst:.1f} times at most  [at most 2]")


def _run(words: list[str], outputs: str) -> tuple[list[tuple[float, float, bool]], float]:
    """Return what was said to be left and when, whether a cell of a sweep was done, and the
    end."""
    began, said, text = time.monotonic(), [], ""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"RUNNER_OUTPUTS": outputs, "TERM": "xterm", "COLUMNS": "250"}
        os.execv(sys.executable, [sys.executable, "-m", "runner", *words])
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # how Linux ends a terminal
            break
        if not data:
            break
        *lines, text = (text + data.decode(errors="replace")).split("\r")
        for line in [*lines, text]:
            if found := _LEFT.search(line):
                seconds = float(found[1]) * _SECONDS[found[2]]
                said.append((time.monotonic() - began, seconds, bool(_CELLS.search(line))))
    ended = time.monotonic() - began
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (0, 1), text
    return said, ended
