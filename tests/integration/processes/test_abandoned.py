"""What a killed command left in the temporary folder goes as soon as the next one begins."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from runner.processes.children import Zygote

PATIENCE = 120.0


def print_temporary_files() -> None:
    """Load nothing, and print what is there."""
    print([each.name for each in Path(tempfile.gettempdir()).iterdir()], flush=True)


def test_what_was_abandoned_is_gone_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "runner-trials-1-abandoned").mkdir()
    output = os.memfd_create("output")
    zygote = Zygote(f"{__name__}:print_temporary_files", {"TMPDIR": str(tmp_path)}, output)
    deadline = time.monotonic() + PATIENCE
    try:
        while not (said := os.pread(output, 4096, 0)) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        zygote.end()
        os.close(output)
    assert said == b"[]\n"
