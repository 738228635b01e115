"""What it costs to measure a script as it is, against plain Python: the time to a first figure, and
what its steps take."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runner import records

PROGRAMS = Path(__file__).resolve().parent.parent / "integration" / "script" / "programs"
REPEATS = 3
STEPS = """
import sys
import time

import keras
import tensorflow as tf

layer = keras.layers.Dense(128, activation="relu")
optimizer = keras.optimizers.SGD(0.01)
seconds = []
batch = tf.ones([64, 96])
for number in range(200):
    began = time.perf_counter()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(batch) ** 2)
    gradients = tape.gradient(loss, layer.trainable_variables)
    optimizer.apply_gradients(zip(gradients, layer.trainable_variables))
    seconds.append(time.perf_counter() - began)
    time.sleep(0.0005)
print(sorted(seconds[20:])[90])
"""
"""Times its own steps, so that the same is read with and without the runner."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RUNNER_OUTPUTS"] = folder
        for program in ("tape_loop.py", "keras_fit.py"):
            _print_first_figures(PROGRAMS / program)
        _print_cost_of_marks(Path(folder))


def _print_first_figures(program: Path) -> None:
    kinds = {
        "memory": ("measure.memory_processes=1", "measure.timing_processes=0"),
        "time": ("measure.memory_processes=0", "measure.timing_processes=1"),
    }
    took: dict[str, list[float]] = {"plain": [], **{kind: [] for kind in kinds}}
    for _ in range(REPEATS):
        took["plain"].append(_time([sys.executable, str(program)]))
        for kind, words in kinds.items():
            command = [sys.executable, "-m", "runner", "script", "tracking=none", *words]
            took[kind].append(_time([*command, "scenario.max_steps=null", str(program)]))
    plain = statistics.median(took["plain"])
    print(f"{program.name}: plain Python to its end {plain:.2f} s", flush=True)
    for kind in kinds:
        seconds = statistics.median(took[kind])
        print(f"  to the first figure of {kind} {seconds:.2f} s, {seconds / plain:.2f} times plain")


def _print_cost_of_marks(folder: Path) -> None:
    script = folder / "steps.py"
    script.write_text(STEPS)
    plain, marked = [], []
    for _ in range(REPEATS):
        plain.append(float(_run([sys.executable, str(script)]).splitlines()[-1]))
        words = ("measure.memory_processes=0", "measure.timing_processes=1", "tracking=none")
        _run([sys.executable, "-m", "runner", "script", *words, "scenario.max_steps=null",
              str(script)])  # fmt: skip
        (run,) = sorted(folder.glob("runs/*/*"))[-1:]
        lines = (run / records.LOG_FILE).read_text().splitlines()
        marked.append(float(next(line for line in reversed(lines) if line[:2] == "0.")))
    one, other = statistics.median(plain), statistics.median(marked)
    print(
        f"a step of {one * 1e3:.3f} ms takes {other * 1e3:.3f} ms in a timing trial: "
        f"{100 * (other / one - 1):+.1f} %"
    )


def _time(command: list[str]) -> float:
    began = time.monotonic()
    _run(command)
    return time.monotonic() - began


def _run(command: list[str]) -> str:
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout
