"""What the kernel says of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from runner.processes.process_tree import read_waited_seconds

BUSY = "import os; os.sched_setaffinity(0, {%d}); print(flush=True)\nwhile True: pass"
ASLEEP = "import time; print(flush=True); time.sleep(600)"


def start(code: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_one_of_two_that_share_a_processor_waits_and_one_asleep_does_not() -> None:
    processor = min(os.sched_getaffinity(0))
    processes = [start(BUSY % processor), start(BUSY % processor), start(ASLEEP)]
    try:
        time.sleep(0.2)  # the last one falls asleep
        before = [read_waited_seconds(process.pid) for process in processes]
        time.sleep(1.0)
        waited = [
            read_waited_seconds(process.pid) - earlier
            for process, earlier in zip(processes, before, strict=True)
        ]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert waited[0] + waited[1] > 0.5
    assert waited[2] == 0
    assert read_waited_seconds(2**30) == 0
