"""`leak` and `fit` on scripts as they are: planted lists, and a limit that plain Python meets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli

PROGRAMS = Path(__file__).resolve().parents[2] / "integration" / "script" / "programs"
CAP_MB = 64


@pytest.mark.parametrize(
    ("program", "bytes_per_step", "code", "name"),
    [
        (
            "growing_callback.py",
            10_000,
            "self.pictures.append(tf.ones([2500]) * batch)",
            "pictures",
        ),
        ("growing_loop.py", 3_200, "found = tf.matmul(batch, weight.value)", "history"),
    ],
)
def test_leak_names_the_line_and_the_holder_of_what_a_script_keeps(
    cli: Cli, program: str, bytes_per_step: int, code: str, name: str
) -> None:
    brief = ("measure.timing_processes=1", "measure.max_seconds=3")
    words = ("--json", "--no-remedies", *brief, str(PROGRAMS / program))
    answer = cli("leak", *words, timeout=500)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["verdict"] == "grows"
    assert found["tensor_growth_bytes_per_step"] == pytest.approx(bytes_per_step, rel=0.01)
    tensors = [each for each in found["holders"] if each["kind"] == "tensor"]
    assert tensors[0]["code"] == code
    assert tensors[0]["file"].endswith(program)
    chains = [" > ".join(each["chain"]) for each in found["holders"] if each["chain"]]
    assert any(name in chain for chain in chains), chains


def test_a_fits_answer_completes_under_plain_python_and_the_next_value_does_not(cli: Cli) -> None:
    script = str(PROGRAMS / "sized.py")
    words = ("--json", "vary=batch_size", f"device.memory_limit_mb={CAP_MB}", "max=100000")
    answer = cli("fit", *words, script, "--batch-size", "{batch_size}", timeout=500)
    assert answer.returncode == 0, answer.stderr
    (found,) = json.loads(answer.stdout)
    largest = found["largest"]
    assert largest > 1000

    def completes(size: int) -> bool:
        cap = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(CAP_MB)}
        command = [sys.executable, script, "--batch-size", str(size)]
        return subprocess.run(command, env={**os.environ, **cap}, timeout=300).returncode == 0

    assert completes(largest)
    assert not completes(largest + 1)
