"""Who measures in somebody's process says what it can't count there."""

from __future__ import annotations

import os
import subprocess
import sys

_PROGRAM = """
from tests import lean_tensorflow
import tensorflow as tf
from runner.errors import Unavailable
from runner.meters.tensor.allocator import AllocatorAccount
from runner.meters.tensor.block import MemoryBlock

with tf.Graph().as_default():
    tf.reshape(tf.ones([6]), tf.constant([2, 3]) + 0)
problem = AllocatorAccount().problem
assert "a graph was made before TensorFlow had a device" in problem, problem
try:
    MemoryBlock().abandon()
except Unavailable as error:
    assert "TF_CPU_ALLOCATOR_USE_BFC=1" in str(error) and "list_logical_devices" in str(error)
else:
    raise AssertionError("it was measured")
"""


def test_a_graph_before_the_first_device_leaves_arrays_uncounted() -> None:
    """TensorFlow has a second allocator of host memory then, and for good."""
    exact = {**os.environ, "TF_CPU_ALLOCATOR_USE_BFC": "1"}
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=300, env=exact)
