"""What survives is counted right where memray's own thread hardly gets a turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import json, os, subprocess, sys
from runner.meters.host.survivors import SurvivorMeter

meter = SurvivorMeter()
cores = sorted(os.sched_getaffinity(0))
mine, theirs = {cores[0]}, {cores[-1]}
before = set(os.listdir("/proc/self/task"))
meter.start()
(thread,) = set(os.listdir("/proc/self/task")) - before
os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))
os.sched_setaffinity(int(thread), theirs)
os.sched_setaffinity(0, mine)
busy = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {theirs})\\nwhile True: pass"]
others = [subprocess.Popen(busy) for _ in range(2)]
held = []
try:
    meter.mark()
    for _ in range(10):
        held.append(bytearray(31_000))
        meter.mark()
    meter.stop()
finally:
    for each in others:
        each.kill()
series = [each.bytes for each in meter.read() if each.code == "held.append(bytearray(31_000))"]
print(json.dumps(series))
"""

UNWRITTEN = """
import json, zlib
import numpy as np
from runner.meters.host.resident import HostMemory
from runner.meters.host.survivors import SurvivorMeter

meter, host, held = SurvivorMeter(), HostMemory(), []

def keep_partly_written():
    held.append(zlib.compressobj())
    held.append(np.zeros(100_000))
    held[-1][:5_000] = 1

for _ in range(5):
    keep_partly_written()
meter.start()
meter.mark()
before = host.anonymous()
for _ in range(20):
    keep_partly_written()
    meter.mark()
risen = host.anonymous() - before
meter.stop()
print(json.dumps([sum(each.bytes[-1] for each in meter.read()), risen]))
"""


def run_program(text: str, folder: Path) -> Any:
    """Return what a program prints, in a process of its own."""
    program = folder / "program.py"
    program.write_text(text)
    answer = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_of_large_blocks_the_pages_count_that_were_written_to(tmp_path: Path) -> None:
    counted, risen = run_program(UNWRITTEN, tmp_path)
    assert counted < 20 * (268_000 + 800_000) / 2
    assert counted == pytest.approx(risen, rel=0.15)


def test_each_step_is_counted_at_its_own_mark_on_a_busy_core(tmp_path: Path) -> None:
    (series,) = run_program(PROGRAM, tmp_path)
    taken = [later - earlier for earlier, later in pairwise(series)]
    assert len(taken) == 10
    assert all(31_000 <= each <= 31_300 for each in taken), series
