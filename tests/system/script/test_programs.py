"""Programs that were not made for it, run as they are: their peaks against plain Python's, byte by
byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MeasureWords
from tests.integration.script.test_programs import PROGRAMS, as_words, seen

PLAIN = Path(__file__).with_name("plain.py")


def measure_plainly(program: str, *argv: str) -> int:
    """Return the peak that TensorFlow's profiler gives for the program under plain Python."""
    answer = subprocess.run(
        [sys.executable, PLAIN, str(PROGRAMS / program), *argv],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    )
    assert answer.returncode == 0, answer.stderr
    return int(answer.stdout.split("peak ")[1].split()[0])


TAKEN_OVER_BYTES = 4
"""Plain TensorFlow takes a scalar of NumPy's over, or copies it, as its address has it."""

MOST_PROCESSES = 12
"""Of a graph, whose peak is another in each: those of plain Python are some more of them."""


@pytest.mark.parametrize(
    ("program", "argv", "steps", "step_is"),
    [
        ("keras_fit.py", ("--epochs", "2", "--eager"), 12, "each batch of Keras' fit"),
        ("keras_fit.py", ("--epochs", "1"), 6, "each batch of Keras' fit"),
        ("tape_loop.py", (), 12, "each update by SGD"),
        ("first_session.py", (), 8, "each session.run that updates by AdamOptimizer"),
        ("generate.py", (), 0, None),
        ("workers.py", (), 6, "each call of train (workers.py:25), which updates by SGD"),
        ("exits.py", ("--name", "a b"), 6, "each batch of Keras' predict"),
    ],
)
def test_the_peak_is_that_of_the_same_program_under_plain_python(
    measure: MeasureWords, program: str, argv: tuple[str, ...], steps: int, step_is: str | None
) -> None:
    plain, peaks = {measure_plainly(program, *argv)}, set[float]()

    def do_they_meet() -> bool:
        return min(peaks) - TAKEN_OVER_BYTES <= max(plain) and min(plain) <= max(peaks)

    for number in range(1, MOST_PROCESSES + 1):
        record = measure(*as_words(program, *argv), "scenario.max_steps=null")
        assert seen(record) == (steps, step_is)
        peaks.add(record.metrics["tensor_peak_bytes"] or 0)
        if do_they_meet():
            break
        if number % 4 == 0:
            plain.add(measure_plainly(program, *argv))
    assert do_they_meet(), (plain, peaks)
    assert record.allocations is not None
    assert record.environment.code is not None
    assert any(file.endswith(program) for file in record.environment.code.files)
    lines = [line.file for line in record.allocations.lines if line.file]
    assert any(file.endswith(program) or "helper_module" in file for file in lines)
