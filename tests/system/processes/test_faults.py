"""A fault at calls that write, sync, rename or delete: nothing is lost, doubled or half-written.

A sample of the points; `python -m tests.benchmarks faults` has all of them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.attacks import faults


@pytest.mark.parametrize(("name", "share"), [("run", 0.1), ("sweep", 0.05)])
def test_after_a_fault_the_same_command_ends_as_if_there_was_none(
    name: str, share: float, tmp_path: Path
) -> None:
    if shutil.which("strace") is None:
        why = "strace is missing: apt install strace"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    found = list(faults.inject_faults(tmp_path, name, share))
    assert len(found) >= 5
    assert [problem for problem in found if problem] == []
