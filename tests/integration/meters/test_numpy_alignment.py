"""Arrays of NumPy's that become tensors count once each, wherever their memory begins."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.benchmarks.numpy_arrays import PROGRAMS, TRUTH
from tests.conftest import MeasureWords

CHILD = """
import threading

import numpy as np

before = [np.full(size, 7.0) for size in (1, 100, 100_000)]
from runner.meters.tensor import numpy_alignment

keep = numpy_alignment._replace_functions(numpy_alignment._find_handler())


def check(array):
    assert array.ctypes.data % 64 == 16, array.ctypes.data
    return array


def check_all():
    for size in (1, 3, 7, 100, 1_000, 100_000, 10_000_000):
        for dtype in ("int8", "float32", "complex128"):
            assert not check(np.zeros(size, dtype)).any()
            check(np.empty(size, dtype))
            check(np.ones(size, dtype)[::2].copy())


check_all()
failed = []
thread = threading.Thread(target=check_all)
threading.excepthook = failed.append
thread.start()
thread.join()
assert not failed

grown = np.arange(10.0)
for size in (100, 33, 100_000, 12, 1_000_000, 10):
    grown.resize(size, refcheck=False)
    assert (check(grown)[:10] == np.arange(10.0)).all()
for array in before:  # they have the memory that they had
    array.resize(2 * array.size, refcheck=False)
    assert array[0] == 7.0
del before, array
for _ in range(10_000):
    np.ones(1_000) + np.ones(1_000)
assert len(numpy_alignment._installed) == 0
kept_until_python_ends = np.ones(100)
"""


def test_each_block_of_numpy_s_begins_beyond_a_multiple_of_64_on_every_thread() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("elements", [1, 100_000])
@pytest.mark.parametrize("name", [name for name in TRUTH if name != "fit"])
def test_an_array_that_becomes_a_tensor_counts_once(
    measure: MeasureWords, name: str, elements: int
) -> None:
    metric, truth = TRUTH[name]
    record = measure(
        "scenario=callable",
        f"scenario.target={PROGRAMS}:{name}",
        f"+scenario.arguments.elements={elements}",
    )
    assert record.metrics[metric] == truth(elements)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float64", 8)])
def test_a_loop_in_numpy_takes_its_result_s_bytes(
    measure: MeasureWords, dtype: str, size: int
) -> None:
    record = measure("scenario=numpy_loop", f"scenario.dtype={dtype}", "batch_size=3")
    assert record.metrics["tensor_step_peak_bytes"] == size * 3 * 100
    assert record.metrics["allocated_bytes_per_step"] == size * 3 * 100
