"""Reading the profiler's file, against protobuf's own reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys

REAL = """
import glob, json, sys, tempfile
import numpy as np
from tests import lean_tensorflow
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2
from runner.meters.tensor.trace_reader import read_window

folder = tempfile.mkdtemp()
tf.profiler.experimental.start(folder, tf.profiler.experimental.ProfilerOptions(2, 0, 0))
state = tf.random.normal([57, 123])
weight = tf.random.normal([123, 123])

@tf.function
def loop(state):
    with tf.name_scope("outer"):
        return tf.while_loop(lambda i, s: i < 20, lambda i, s: (i + 1, s @ weight), [0, state])[1]

@tf.function(jit_compile=True)
def fused(state):
    return tf.tanh(state @ weight) @ weight

for step in range(3):
    with tf.profiler.experimental.Trace("runner/steps", index=step):
        with tf.GradientTape() as tape:
            tape.watch(state)
            loss = tf.reduce_sum(loop(state)) + tf.reduce_sum(fused(state)) + tf.constant(2.0)
        tape.gradient(loss, state)
tf.profiler.experimental.stop()
(path,) = glob.glob(folder + "/plugins/profile/*/*.xplane.pb")
content = open(path, "rb").read()

plain, marks = [], []
planes = xplane_pb2.XSpace.FromString(content).planes
(start,) = [s.uint64_value for p in planes for s in p.stats
            if p.stat_metadata[s.metadata_id].name == "profile_start_time"]
for plane in planes:
    for line in plane.lines:
        for event in line.events:
            name = plane.event_metadata[event.metadata_id].name
            stats = {}
            for stat in event.stats:
                kind = stat.WhichOneof("value")
                value = getattr(stat, kind)
                if kind == "ref_value":
                    value = plane.stat_metadata[value].name
                stats[plane.stat_metadata[stat.metadata_id].name] = value
            time = start + line.timestamp_ns + event.offset_ps // 1000
            if name in ("MemoryAllocation", "MemoryDeallocation"):
                plain.append((time, name == "MemoryDeallocation", stats["addr"],
                    stats["requested_bytes"], stats["allocation_bytes"], stats["bytes_allocated"],
                    stats["peak_bytes_in_use"], stats["data_type"], stats["allocator_name"],
                    stats.get("tf_op"), stats.get("shape")))
            elif name.startswith("runner/"):
                marks.append((name[7:], stats["index"], time, time + event.duration_ps // 1000))
plain.sort(key=lambda row: row[0])
marks.sort(key=lambda mark: mark[2])

window = read_window(content)
text = lambda codes: [None if code < 0 else window.names[code] for code in codes]
ours = list(zip(window.time_ns.tolist(), window.freed.tolist(), window.address.tolist(),
    window.requested_bytes.tolist(), window.allocated_bytes.tolist(), window.in_use_bytes.tolist(),
    window.peak_bytes.tolist(), window.dtype.tolist(), text(window.allocator), text(window.op),
    text(window.shape)))
print(json.dumps({
    "events": len(plain), "equal": ours == plain, "marks": len(marks),
    "equal_marks": [tuple(mark) for mark in window.marks] == marks,
    "within": sorted({name for name in text(window.within) if name}),
    "types": sorted(set(window.op_types.values())),
    "lines": sum(1 for plane in planes for line in plane.lines),
}))
"""


def test_a_real_trace_is_read_as_protobufs_own_reader_reads_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAL],
        env={**os.environ, "TF_CPU_ALLOCATOR_USE_BFC": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)

    assert found["events"] > 300
    assert found["lines"] > 1
    assert found["marks"] == 3
    assert found["equal"]
    assert found["equal_marks"]
    assert any("Executable::Execute" in name or "fused" in name for name in found["within"])
    assert any("MatMul" in kind for kind in found["types"])
