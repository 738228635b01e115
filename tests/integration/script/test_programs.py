"""Programs that were not made for it, run as they are: their peaks against plain Python's, byte by
byte, and what was taken for a step of theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.records import Record
from tests.conftest import MeasureWords

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"


def as_words(program: str, *argv: str) -> tuple[str, ...]:
    quoted = ",".join(f"'{word}'" for word in argv)
    return "scenario=script", f"scenario.path={PROGRAMS / program}", f"scenario.argv=[{quoted}]"


def measure_plainly(program: str, *argv: str) -> int:
    """Return the peak that TensorFlow's profiler gives for the program under plain Python."""
    answer = subprocess.run(
        [sys.executable, HERE / "plain.py", str(PROGRAMS / program), *argv],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    )
    assert answer.returncode == 0, answer.stderr
    return int(answer.stdout.split("peak ")[1].split()[0])


def seen(record: Record) -> tuple[int, str | None]:
    program = record.trials[0].facts.program
    assert program is not None
    return program.steps, program.step_is


TAKEN_OVER_BYTES = 4


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
    record = measure(*as_words(program, *argv), "scenario.max_steps=null")
    assert seen(record) == (steps, step_is)
    plain, peak = measure_plainly(program, *argv), record.metrics["tensor_peak_bytes"]
    low, high = record.intervals.get("tensor_peak_bytes", (peak, peak))
    # Plain TensorFlow takes a scalar of NumPy's over, or copies it, as its address has it.
    assert low - TAKEN_OVER_BYTES <= plain <= high, (plain, low, high)
    assert record.allocations is not None
    assert record.environment.code is not None
    assert any(file.endswith(program) for file in record.environment.code.files)
    lines = [line.file for line in record.allocations.lines if line.file]
    assert any(file.endswith(program) or "helper_module" in file for file in lines)


def test_a_program_is_stopped_after_the_steps_that_are_wanted(measure: MeasureWords) -> None:
    record = measure(*as_words("tape_loop.py"), "scenario.max_steps=4", timing=True)
    for trial in record.trials:
        assert trial.facts.program is not None
        assert (trial.facts.program.steps, len(trial.steps)) == (4, 3)
    assert record.metrics["tensor_growth_bytes_per_step"] in (0, None)


def test_a_program_without_steps_says_why_nothing_is_known_of_them(measure: MeasureWords) -> None:
    record = measure(*as_words("generate.py"))
    assert set(record.trials[0].phases) == {"build", "release"}
    for name in ("tensor_growth_bytes_per_step", "tensor_step_peak_bytes"):
        assert record.metrics[name] is None
        assert "say scenario.step=MODULE:FUNCTION" in record.unavailable[name]


def test_a_function_that_is_named_is_a_step(measure: MeasureWords) -> None:
    record = measure(*as_words("generate.py"), "scenario.step=generate:next_token")
    assert seen(record) == (11, "each call of generate:next_token")
    assert record.metrics["tensor_growth_bytes_per_step"] == 4 * 4  # a token more of each text


def test_an_exception_and_a_bad_exit_are_failures_with_their_line(
    measure: MeasureWords, tmp_path: Path
) -> None:
    script = tmp_path / "fails.py"
    for text, reason in (
        ("import sys\nsys.exit(3)\n", "sys.exit(3)"),
        ("import argparse\nargparse.ArgumentParser().parse_args(['--no'])\n", "argparse refused"),
        ("def f():\n    return 1 // 0\n\nf()\n", f"{script}:2 in f"),
    ):
        script.write_text(text)
        record = measure("scenario=script", f"scenario.path={script}", fails=True)
        assert record.outcome.status == "failed"
        assert reason in str(record.outcome.reason)
