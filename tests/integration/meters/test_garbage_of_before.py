"""A measured block gives the same figure whatever garbage was there before it."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import gc

from runner.meters.tensor import block
from runner.meters.tensor.allocator import choose_exact_allocator
from runner.records import Phase

choose_exact_allocator()
from tests import lean_tensorflow
import tensorflow as tf


def make_cycle(elements):
    cycle = [tf.zeros([elements])]
    cycle.append(cycle)


def measure():
    found = block.MemoryBlock()
    found.begin(Phase.FIRST_CALL)
    make_cycle(1_000_000)
    objects = [[] for _ in range(200_000)]  # so many that the collector runs, and frees the cycle
    tf.zeros([500_000])
    return found.finish().trial.allocations.total_bytes


first = measure()  # 2 MB more, had the cycle not been freed; and the scalars that it is filled with
assert 4_000_000 <= first < 4_000_100, first
for _ in range(3):
    kept = [[number] for number in range(300_000)]
    make_cycle(2_000_000)
    gc.collect(1)
    gc.collect(0)
    again = measure()
    assert again == first, again

for _ in range(10):  # 160 MB of garbage that only a look through all objects can free
    make_cycle(4_000_000)
    gc.freeze()
    gc.unfreeze()
    measure()
    live = tf.config.experimental.get_memory_info("CPU:0")["current"]
    assert live < block._MOST_GARBAGE_BYTES + 32_000_000, live
"""


def test_garbage_of_before_changes_no_figure_and_does_not_pile_up() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=300)
