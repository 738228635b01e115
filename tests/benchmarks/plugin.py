"""The pytest plugin's figure for one test, 100 times: with and without two workers, on each Python.

python -m tests.benchmarks plugin             # the Python that runs it
python -m tests.benchmarks.plugin PYTHON...   # those of environments where the runner is installed

Each of the sessions is a new process that has the test many times over; so a figure is the same
between Pythons, processes, workers, and what ran before in them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Collection, Sequence
from pathlib import Path

TEST = """
import keras
import pytest
import tensorflow as tf


@pytest.fixture
def model():
    return keras.Sequential([keras.Input((100,)), keras.layers.Dense(300), keras.layers.Dense(10)])


@pytest.mark.parametrize("time", range({times}))
@pytest.mark.tf_memory(growth="0 B", steps=3)
def test_a_training_step(model, time):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.ones([32, 100])) ** 2)
    tape.gradient(loss, model.trainable_variables)
"""
RUNS, SESSIONS = 100, 5
PEAK = "tf_memory_peak_bytes"


def peaks(python: str, times: int, *words: str) -> list[int]:
    """Of one session."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "test_theirs.py").write_text(TEST.format(times=times))
        command = [python, "-m", "pytest", "-q", "--junitxml=junit.xml", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        properties = ET.parse(folder / "junit.xml").iter("property")
        return [int(each.attrib["value"]) for each in properties if each.attrib["name"] == PEAK]


def main(pythons: Sequence[str] = (sys.executable,), sessions: int = SESSIONS) -> None:
    seen: set[int] = set()
    for python in pythons:
        version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True)
        for words in ((), ("-n", "2")):
            found: list[int] = []
            for _ in range(sessions):
                found += peaks(python, RUNS // sessions, *words)
            seen |= set(found)
            how = " ".join([version.stdout.strip(), *words])
            print(f"{how:<18} {len(found)} runs in {sessions} sessions: {_told(found)}", flush=True)
    print(f"in all {_told(seen)}")


def _told(found: Collection[int]) -> str:
    numbers = sorted(set(found))
    count = "one number" if len(numbers) == 1 else f"{len(numbers)} numbers"
    return f"{count}, {', '.join(f'{each:,}' for each in numbers)} bytes"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("pythons", nargs="*", default=[sys.executable])
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    options = parser.parse_args()
    main([str(Path(each).absolute()) for each in options.pythons], options.sessions)
