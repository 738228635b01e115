"""What the pytest plugin costs a suite of small tests; and its figure for one test, 100 times: with
and without two workers, on each Python.

python -m tests.benchmarks plugin             # the Python that runs it
python -m tests.benchmarks.plugin PYTHON...   # those of environments where the runner is installed

The cost is the processor time of whole sessions, side by side: without the plugin, with it, and
with a limit for every test in the ini file. For the figure, each of the sessions is a new process
that has the test many times over; so a figure is the same between Pythons, processes, workers, and
what ran before in them.
"""

from __future__ import annotations

import argparse
import resource
import statistics
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
SUITE = """
import keras
import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture
def model():
    return keras.Sequential([keras.Input((20,)), keras.layers.Dense(30), keras.layers.Dense(1)])


@pytest.mark.parametrize("size", range(1, 24))
def test_an_op(size):
    assert float(tf.reduce_sum(tf.ones([size, size]))) == size**2


@pytest.mark.parametrize("size", range(1, 24))
def test_a_gradient(size):
    x = tf.Variable(np.ones(size, np.float32))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x**2)
    assert tape.gradient(loss, x).shape == (size,)


@pytest.mark.parametrize("size", range(1, 18))
def test_a_layer(model, size):
    assert model(tf.ones([size, 20])).shape == (size, 1)


@pytest.mark.parametrize("size", range(1, 7))
def test_a_function(size):
    assert tf.function(lambda x: tf.reduce_sum(x * 2))(tf.ones([size])) == 2 * size
"""
"""69 tests."""
WAYS = {
    "without the plugin": ("-p", "no:tf_memory"),
    "with it": (),
    "with tf_memory_peak": ("-o", "tf_memory_peak=1 GB"),
}
RUNS, SESSIONS, ROUNDS = 100, 5, 5
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


def measure_processor_time(python: str, *words: str) -> float:
    """Return the seconds that a session of the suite takes of all processors."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_theirs.py").write_text(SUITE)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [python, "-m", "pytest", "-q", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "69 passed" in done.stdout, done.stdout + done.stderr
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def print_cost(python: str) -> None:
    """Print the processor time of each way, and its ratio to the first in the same round."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way, words in WAYS.items():
            seconds[way].append(measure_processor_time(python, *words))
    plain = next(iter(seconds.values()))
    for way, its in seconds.items():
        ratios = sorted(one / base for one, base in zip(its, plain, strict=True))
        print(
            f"{way:<20} {statistics.median(its):5.1f} s of processor time for 69 tests, "
            f"{statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})",
            flush=True,
        )


def main(pythons: Sequence[str] = (sys.executable,), sessions: int = SESSIONS) -> None:
    for python in pythons:
        print_cost(python)
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
