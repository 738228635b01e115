"""The output of a child goes to its log, and nobody who writes for ever keeps the runner."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from runner.processes import children
from runner.processes.children import Output


def test_output_that_never_ends_is_drained_for_its_time_only(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(["yes"], stdout=writing) as flood:
        os.close(writing)
        output = Output(reading, tmp_path / "log")
        started = time.monotonic()
        assert output.drain(0.3) is False
        assert time.monotonic() - started < 10
        flood.kill()
    output.close()
    log = (tmp_path / "log").read_bytes()
    assert len(log) < children.MOST_OUTPUT + 100
    assert b"more bytes of output were not kept" in log


def test_output_that_ends_is_kept_whole(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"the last words")
    os.close(writing)
    output = Output(reading, tmp_path / "log")
    assert output.drain(60.0) is True
    output.close()
    assert (tmp_path / "log").read_bytes() == b"the last words"


def test_output_whose_folder_has_gone_is_read_all_the_same(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"nobody reads this")
    os.close(writing)
    output = Output(reading, tmp_path / "gone" / "log")
    assert output.drain(60.0) is True
    output.close()
