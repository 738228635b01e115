"""A fault (EIO, ENOSPC, EMFILE, SIGKILL) at each system call of a run, a sweep, `publish` and
`clean` that writes, opens, syncs, renames or deletes: how many there were, and how many left
something lost, doubled, half-written or RUNNING. It must be 0. With strace."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.attacks import faults


def main() -> None:
    share = float(os.environ.get("RUNNER_FAULTS", "1"))
    for name in os.environ.get("RUNNER_FAULTS_OF", ",".join(faults.COMMANDS)).split(","):
        with tempfile.TemporaryDirectory() as scratch:
            found = list(faults.inject_faults(Path(scratch), name, share))
        short = [problem for problem in found if problem]
        print(f"{name:10} {len(found):5} points   {len(short)} fell short", flush=True)
        for problem in short:
            print(f"  {problem}")
