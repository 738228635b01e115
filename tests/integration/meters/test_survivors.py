"""What survives is counted right where memray's own thread hardly gets a turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

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


def test_each_step_is_counted_at_its_own_mark_on_a_busy_core(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    answer = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert answer.returncode == 0, answer.stderr
    (series,) = json.loads(answer.stdout)
    taken = [later - earlier for earlier, later in pairwise(series)]
    assert len(taken) == 10
    assert all(31_000 <= each <= 31_300 for each in taken), series
