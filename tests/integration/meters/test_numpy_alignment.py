"""Arrays of NumPy's that become tensors count once each, wherever their memory begins."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.benchmarks.numpy_arrays import PROGRAMS, TRUTH
from tests.conftest import MeasureWords
from tests.integration.meters import given_arrays

CHILD = """
import threading

import numpy as np

from runner.meters.tensor.numpy_alignment import UnalignedMemory

memory = UnalignedMemory()


def check(array):
    assert array.ctypes.data % 64, array.ctypes.data
    return array


def check_all():
    kept = []
    with memory.use():
        for size in (*range(1, 100), 1_000, 100_000, 1_000_000):
            for dtype in ("int8", "float32", "complex128"):
                kept += [check(np.empty(size, dtype)), check(np.ones(size, dtype)[::2].copy())]
                check(np.arange(size).astype(dtype))
        for array in kept:  # freed and grown by whose turn it is
            array.resize(2 * array.size, refcheck=False)
    for array in kept:
        array.resize(3 * array.size, refcheck=False)


check_all()
failed = []
thread = threading.Thread(target=check_all)
threading.excepthook = failed.append
thread.start()
thread.join()
assert not failed

with memory.use():
    of_ours = np.arange(10.0)
    with memory.use(numpys=True):
        of_numpys = np.arange(10.0)
    again = np.arange(10.0)
handler = np._core.multiarray.get_handler_name
assert handler(of_ours) == handler(again) == "between_multiples_of_64"
assert handler(of_numpys) == handler() == "default_allocator"
try:
    with memory.use():
        raise KeyError
except KeyError:
    assert handler() == "default_allocator"
kept_until_python_ends = of_ours
"""


@pytest.mark.parametrize("watched", [{}, {"PYTHONMALLOC": "debug"}, {"PYTHONTRACEMALLOC": "1"}])
def test_a_block_begins_between_multiples_of_64_on_every_thread(watched: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, env=os.environ | watched
    )
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


@pytest.mark.parametrize(
    ("way", "rows"),
    [*((way, 60) for way in given_arrays.WAYS), ("fit, a layer of its own", 400)],
)
def test_what_a_program_is_given_is_in_its_peak_once(
    measure: MeasureWords, way: str, rows: int
) -> None:
    def measure_peak(rows: int) -> float:
        words = (f"scenario.path={given_arrays.__file__}", f"scenario.argv=['{way}','{rows}']")
        record = measure("scenario=script", *words, "scenario.max_steps=null")
        assert set(record.allocations.allocators) == {"bfc_cpu_allocator_for_gpu"}
        return record.metrics["tensor_peak_bytes"]

    copies = (measure_peak(2 * rows) - measure_peak(rows)) / (4 * rows * given_arrays.WIDTH)
    # Keras adds a label and an index a row, and has now a batch of one row more, now one less.
    assert copies == pytest.approx(given_arrays.COPIES.get(way, 1), abs=0.1)
