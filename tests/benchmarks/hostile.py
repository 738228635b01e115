"""Bad input by the thousand: how many lines and files of each kind were tried, and how many fell
short of one message, exit code 2 and nothing left behind. It must be 0."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests import hostile
from tests.unit import test_schema

OF_EACH = 120


def main() -> None:
    started = time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        counts, short = hostile.tried(Path(scratch), OF_EACH)
    with tempfile.TemporaryDirectory() as scratch:
        files = test_schema.tried(Path(scratch), test_schema.MUTATIONS)
    for kind, count in counts.items():
        fell = sum(each.startswith(f"{kind}: ") for each in short)
        print(f"{kind:40} {count:5} lines   {fell} fell short")
    fell = [each for each in files if each]
    print(f"{'a record or its trials, changed':40} {len(files):5} files   {len(fell)} fell short")
    print(
        f"{counts.total()} lines and {len(files)} files, {len(short) + len(fell)} fell short; "
        f"{time.process_time() - started:.0f} s of processor time"
    )
    for each in (*short, *fell):
        print(f"  {each}")
