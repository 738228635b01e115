"""The time to the first figure of a real model, and to its summary, against the plain program to
its tenth step.

    python -m tests.benchmarks real_models

With `RUNNER_CLONES=FOLDER:FOLDER`, clones of other versions with an environment in `.venv`, it
prints theirs as well; `RUNNER_MODELS=gpt2-graph,mobilenet-graph` takes these alone.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import _real_models

CELLS = (
    ("efficientnet", "eager"),
    ("efficientnet", "graph"),
    ("gpt2", "eager"),
    ("gpt2", "graph"),
    ("mobilenet", "graph"),
)
HERE = Path(__file__).resolve().parents[2]
WORDS = ("scenario=callable", "tracking=none", "measure.timeout_seconds=1800")
FIGURE = re.compile(r"peak\s+[\d.]+ [kMG]?B")


def main() -> None:
    clones = [Path(word) for word in os.environ.get("RUNNER_CLONES", "").split(":") if word]
    wanted = os.environ.get("RUNNER_MODELS", "").split(",")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(_real_models.__file__, folder)  # where no package of ours is in the way
        for model, execution in CELLS:
            if wanted != [""] and f"{model}-{execution}" not in wanted:
                continue
            plain, plain_cpu, _ = _time(
                [sys.executable, "_real_models.py", model, execution], folder
            )
            print(f"{model}, {execution}: {plain:.1f} s plainly to the tenth step", flush=True)
            for clone in (*clones, HERE):
                words = [*WORDS, f"scenario.target=_real_models:{model}", f"execution={execution}"]
                python = str(clone / ".venv" / "bin" / "python")
                last, cpu, lines = _time([python, "-m", "runner", *words], folder)
                first = next((seconds for seconds, line in lines if FIGURE.search(line)), last)
                (trials,) = (line.strip() for _, line in lines if " trials (" in line)
                print(
                    f"  {clone}: first figure {first / plain:.2f} times that, "
                    f"summary {last / plain:.2f}, processor {cpu / plain_cpu:.2f}; {trials}",
                    flush=True,
                )


def _time(command: list[str], folder: str) -> tuple[float, float, list[tuple[float, str]]]:
    """Return the seconds until it has ended, those of a processor, and when it printed each
    line."""
    began, before, lines = time.monotonic(), _read_cpu_seconds(), []
    environment = {**os.environ, "RUNNER_OUTPUTS": f"{folder}/outputs"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append((time.monotonic() - began, line))
    assert process.returncode == 0, "".join(line for _, line in lines)
    return time.monotonic() - began, _read_cpu_seconds() - before, lines


def _read_cpu_seconds() -> float:
    """Return what children that have ended have taken, and theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
