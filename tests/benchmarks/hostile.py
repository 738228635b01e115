"""Bad input by the thousand: how many lines, files and attacks of each kind were tried, and how
many fell short of what must come of them. It must be 0. RUNNER_ATTACKS says how many attacks."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests import hostile
from tests.attacks import classes
from tests.unit import test_schema

OF_EACH = 120
_CHANGED = "a record or its trials, changed"


def main() -> None:
    started = time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        counts, short = hostile.tried(Path(scratch), OF_EACH)
    with tempfile.TemporaryDirectory() as scratch:
        files = test_schema.tried(Path(scratch), test_schema.MUTATIONS)
    with tempfile.TemporaryDirectory() as scratch:
        attacks, fell_short = classes.try_all(
            Path(scratch), float(os.environ.get("RUNNER_ATTACKS", "2000")) / 2000
        )
    fell = [each for each in files if each]
    short += [*(f"{_CHANGED}: {each}" for each in fell), *fell_short]
    changed = Counter({_CHANGED: len(files)})
    for what, kinds in (("lines", counts), ("files", changed), ("attacks", attacks)):
        for kind, count in kinds.items():
            number = sum(each.startswith(f"{kind}: ") for each in short)
            print(f"{kind:40} {count:5} {what:8} {number} fell short")
    print(
        f"{counts.total()} lines, {len(files)} files and {attacks.total()} attacks: "
        f"{len(short)} fell short; {time.process_time() - started:.0f} s of processor time"
    )
    for each in short:
        print(f"  {each}")
