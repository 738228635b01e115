"""`ui` serves the store that it was asked to, at an address that is its own alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path


def test_links_are_by_the_address_and_nothing_in_outputs_runs(
    outputs: Path, free_port: int
) -> None:
    outputs.mkdir()
    for name in ("mlflow.py", "uvicorn.py", "runner.py", "sitecustomize.py"):
        (outputs / name).write_text(f"open({str(outputs / 'it-ran')!r}, 'w')")
    words = [sys.executable, "-m", "runner", "ui", "--host", "localhost", "--port", str(free_port)]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs), "http_proxy": "http://127.0.0.1:9"},
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert re.search(rf" http://(127\.0\.0\.1|\[::1\]):{free_port}\n", first)
    assert not (outputs / "it-ran").exists()
